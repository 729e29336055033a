"""What equality means in each collation, for plain ASCII; about other collations, nothing is assumed.
Not here: charsets (`schema/model/charsets/`)."""

from __future__ import annotations

from typing import Final

from strata_cdc.dialects.conditions.terms import TextRule

BINARY: Final = "utf8mb4_0900_bin"
"""Compares only the numbers of the characters: the only collation whose order is known here."""

_FOLDING: Final = (
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb3_general_ci",
    "utf8mb3_unicode_ci",
    "latin1_swedish_ci",
    "latin1_general_ci",
    "ascii_general_ci",
)

_UCA1400: Final = {
    f"{charset}_uca1400_{nopad}{accents}_{case}": TextRule(folds=case == "ci", trims=not nopad, only_plain=True)
    for charset in ("utf8mb4", "utf8mb3")
    for nopad in ("", "nopad_")
    for accents in ("ai", "as")
    for case in ("ci", "cs")
}
"""Of MariaDB since 10.10, without those of a language: each has rules of its own for some letters."""

RULES: Final[dict[str, TextRule]] = {
    BINARY: TextRule(),
    "utf8mb4_0900_ai_ci": TextRule(folds=True, only_plain=True),
    "utf8mb4_0900_as_ci": TextRule(folds=True, only_plain=True),
    "utf8mb4_0900_as_cs": TextRule(only_plain=True),
    **dict.fromkeys(_FOLDING, TextRule(folds=True, trims=True, only_plain=True)),
    **_UCA1400,
    **dict.fromkeys(("utf8mb4_bin", "utf8mb3_bin", "latin1_bin", "ascii_bin"), TextRule(trims=True)),
}
