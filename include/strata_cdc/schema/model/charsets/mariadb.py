"""Collation ids and names that only MariaDB has, as `information_schema.COLLATION_CHARACTER_SET_APPLICABILITY` of 11.8
lists them (`FULL_COLLATION_NAME`).
Not here: those that it shares with MySQL (`collations.py`), what they mean (`__init__.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RENAMED: dict[int, str] = {
    122: "utf16_croatian_mysql561_ci",
    149: "ucs2_croatian_mysql561_ci",
    181: "utf32_croatian_mysql561_ci",
    213: "utf8mb3_croatian_mysql561_ci",
    245: "utf8mb4_croatian_mysql561_ci",
}
"""Other names for ids of MySQL; MySQL's names for them belong to other ids here."""

_OWN = """
576 utf8mb3_croatian_ci, 577 utf8mb3_myanmar_ci, 578 utf8mb3_thai_520_w2, 579 utf8mb3_general1400_as_ci, 608
utf8mb4_croatian_ci, 609 utf8mb4_myanmar_ci, 610 utf8mb4_thai_520_w2, 611 utf8mb4_general1400_as_ci, 640
ucs2_croatian_ci, 641 ucs2_myanmar_ci, 642 ucs2_thai_520_w2, 672 utf16_croatian_ci, 673 utf16_myanmar_ci, 674
utf16_thai_520_w2, 736 utf32_croatian_ci, 737 utf32_myanmar_ci, 738 utf32_thai_520_w2
"""

_WITH_NOPAD = """
1 3 4 6 7 8 9 10 11 12 13 16 18 19 22 24 25 26 28 30 32 33 35 36 37 38 39 40 41 43 45 46 47 50 51 53 54 55 56 57 58
59 60 61 62 64 65 66 67 68 69 70 71 72 73 74 75 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 95 96 97 98 101
123 128 150 160 182 192 214 224 246
"""
"""Ids that have a NO PAD form, whose id is greater by 1024."""

_UCA1400_FIRST = {"utf8mb3": 2048, "utf8mb4": 2304, "ucs2": 2560, "utf16": 2816, "utf32": 3072}
_UCA1400_FORMS = ("ai_ci", "ai_cs", "as_ci", "as_cs", "nopad_ai_ci", "nopad_ai_cs", "nopad_as_ci", "nopad_as_cs")
_UCA1400_LANGUAGES = (
    "", "icelandic_", "latvian_", "romanian_", "slovenian_", "polish_", "estonian_", "spanish_", "swedish_", "turkish_",
    "czech_", "danish_", "lithuanian_", "slovak_", "spanish2_", "roman_", "persian_", "esperanto_", "hungarian_",
    "sinhala_", "german2_", None, None, "vietnamese_", "croatian_",
)  # fmt: skip
"""In the order of their ids; None for ids without a collation (strings/ctype-uca1400.h)."""


def collations_of_mariadb(shared: Mapping[int, str]) -> dict[int, str]:
    """Names by id, without those of MySQL.

    Args:
        shared: Names by id that both servers have.
    """
    collations = {int(number): name for number, name in (entry.split() for entry in _OWN.replace("\n", " ").split(","))}
    for number in map(int, _WITH_NOPAD.split()):
        stem, _, form = shared[number].rpartition("_")
        collations[number + 1024] = f"{stem}_nopad_{form}"
    for charset, first in _UCA1400_FIRST.items():
        for language_number, language in enumerate(_UCA1400_LANGUAGES):
            if language is not None:
                for form_number, form in enumerate(_UCA1400_FORMS):
                    collations[first + 8 * language_number + form_number] = f"{charset}_uca1400_{language}{form}"
    return collations
