"""Names whose letters are of several scripts look like others (UTS 39)."""

import pytest
from django.core.exceptions import ValidationError

from petstore.db.names import check_scripts


@pytest.mark.parametrize(
    "name",
    [
        "admin", "Admin-2_b.c", "Zoë", "Łódź", "администратор", "Διαχειριστής", "ペット店", "ﾍﾟｯﾄ",
        "애완동물店",
        "寵物ㄅ", "حيوانات", "पालतू", "42", "", "Pets Питомцы", "IT部", "Müller ªº",
    ],
)  # fmt: skip
def test_words_of_one_script_are_allowed(name: str) -> None:
    check_scripts(name)


@pytest.mark.parametrize(
    "name",
    [
        "\u0430dmin", "adm\u0456n", "\u0410cme Pets", "p\u03bfny", "adm\u0131\u0438", "\u13dfat",
        "ad\u217f\u0456n",
    ],
)  # fmt: skip
def test_words_of_mixed_scripts_are_rejected(name: str) -> None:
    with pytest.raises(ValidationError, match="in a single script"):
        check_scripts(name)
