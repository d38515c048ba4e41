"""Date and time formats, in UTC as in logs."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = r"Y-m-d H:i \U\T\C"
TIME_FORMAT = r"H:i \U\T\C"
