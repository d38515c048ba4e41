"""Strings that are not an int64, or match no row, for use as ids."""

TOO_LARGE, TOO_SMALL = str(2**63), str(-(2**63) - 1)

# As members of a JSON body, to be formatted with an existing id.
INVALID_JSON_IDS = [
    '"{0}"', "true", "false", "null", "{0}.5", "[{0}]", "{{}}", TOO_LARGE, TOO_SMALL, "1e400", "1e999999",
    "1" * 5000, "-" + "1" * 5000, "1e-400",
    "1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999",
    '"\\u0661"', '"1_0"', "9223372036854775807.5",
]  # fmt: skip

# As the last segment of a path: not in canonical form, or an unknown id.
UNKNOWN_PATH_IDS = [
    "0", "-1", "999999", str(2**63 - 1), str(-(2**63)), TOO_LARGE, "9" * 5000, "abc", "1.0", "1e0", "+1",
    "01", "%201", "1%20", "1%00", "%ff", "٣", "1_0", "null", "1%0A", "-0", "%F0%9F%90%95",
]  # fmt: skip
