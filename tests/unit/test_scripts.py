"""Names whose letters are of several scripts look like others (UTS 39)."""

import pytest
from django.core.exceptions import ValidationError

from petstore.db.names import check_scripts


def test_words_of_one_script_are_allowed() -> None:
    for name in (
        "admin", "Admin-2_b.c", "Zoë", "Łódź", "администратор", "Διαχειριστής", "ペット店", "ﾍﾟｯﾄ",
        "애완동물店", "寵物ㄅ", "حيوانات", "पालतू", "42", "", "Pets Питомцы", "IT部", "Müller ªº",
    ):  # fmt: skip
        check_scripts(name)


def test_words_of_mixed_scripts_are_rejected() -> None:
    for name in (
        "\u0430dmin", "adm\u0456n", "\u0410cme Pets", "p\u03bfny", "adm\u0131\u0438", "\u13dfat",
        "ad\u217f\u0456n",
    ):  # fmt: skip
        with pytest.raises(ValidationError, match="in a single script"):
            check_scripts(name)
