"""The one way to write a date, and a time: in UTC, so that people and logs mean the same moment."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = r"Y-m-d H:i \U\T\C"
