"""What is equal in each collation, and what comes first: exact for the characters that are known, an error for others.

A collation compares texts by the weights of their characters. For characters that have exactly one weight, texts are
compared like the texts in which each character is replaced by its rank; to tell what is equal, by one character of its
weight. `collation_weights.json` has these characters as a real server orders them. Texts with other characters raise an
error where they are compared.
Not here: conditions of users on single tables (`dialects/conditions/`), which compare by simpler rules.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

FILE: Final = Path(__file__).with_name("collation_weights.json")
_FIRST_RANK: Final = 0xE000
_NO_CONTROL: Final = "[^\\x00-\\x1f]*"
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_LATIN: Final = "".join(map(chr, range(0xA0, 0x100)))
_SAME: Final = {
    "utf8mb3_general_ci": "utf8mb4_general_ci",
    "utf8mb3_unicode_ci": "utf8mb4_unicode_ci",
    "utf8mb3_unicode_520_ci": "utf8mb4_unicode_520_ci",
    "utf8mb4_0900_as_ci": "utf8mb4_0900_ai_ci",
    "utf8mb3_uca1400_ai_ci": "utf8mb4_uca1400_ai_ci",
}
"""Collations with the weights of another one; as_ci only for ASCII, which has no accents."""
_ONLY_ASCII: Final = frozenset({"utf8mb4_0900_as_ci"})
_PADS: Final = re.compile(r"(?!utf8mb4_0900_|binary$|.*_nopad_)")
"""In these collations, blanks at the end of a text do not count."""
_BY_CODE: Final = {
    "utf8mb4_0900_bin": None,
    "utf8mb4_bin": None,
    "utf8mb3_bin": None,
    "latin1_bin": _PRINTABLE + _LATIN,
    "ascii_bin": _PRINTABLE,
}
"""Collations that compare the numbers of characters, and which are known: their bytes have Unicode's order. In those
with blanks that do not count, control characters come before the blanks: their order is not known."""


class CollationKey(Struct, frozen=True):
    """How texts of one collation become keys that DuckDB compares byte by byte."""

    collation: str
    pads: bool
    characters: str | None = None
    """The characters that are known; None: all are."""
    same: str = ""
    """For each of them, one character of its weight; empty if each has a weight of its own."""
    ranks: str = ""
    """For each of them, its rank; empty if Unicode has their order."""
    is_total: bool = True
    """Whether keys can have the collation's order; otherwise they only tell what is equal."""

    @property
    def macro(self) -> str:
        """The name of its macro in DuckDB for what is equal; it takes a text, and the text's name for the error."""
        return f"key_{self.collation}"

    @property
    def order_macro(self) -> str:
        """The same for ORDER BY and for what is less."""
        return f"order_{self.collation}"

    @property
    def pattern_macro(self) -> str:
        """The same for LIKE, in which blanks at the end count."""
        return f"like_{self.collation}"

    @property
    def is_identity(self) -> bool:
        """Whether equal texts are the same characters, and blanks at the end count."""
        return not self.same and not self.pads

    def known(self, text: str) -> bool:
        """Whether all characters of a text are known."""
        return self.characters is None or set(text) <= set(self.characters)

    def folded(self, text: str) -> str:
        """A text whose characters are known, with one character for each weight."""
        return text.translate(self._table(self.same)) if self.same else text

    def macros(self) -> list[str]:
        """Statements that make the macros; they need `functions`."""
        if not self.same:
            cut = "rtrim(s, ' ')" if self.pads else "s"
            known = "" if self.characters is None else f"[{_in_class(self.characters)}]*"
            ordered = _NO_CONTROL if self.pads and self.characters is None else known
            return [
                _macro(self.macro, self._matching(known, cut)),
                _macro(self.pattern_macro, self._matching(known, "s")),
                _macro(self.order_macro, self._matching(ordered, cut)),
            ]
        # Functions of Python take a microsecond for each text: most texts do without.
        plain = "CASE WHEN regexp_full_match(s, '[ -~]*') THEN {} ELSE {} END"
        cut = "rtrim(lower(s), ' ')" if self.pads else "lower(s)"
        return [
            _macro(self.macro, plain.format(cut, f"{self.macro}_of(s, what)")),
            _macro(self.pattern_macro, plain.format("lower(s)", f"{self.pattern_macro}_of(s, what)")),
            _macro(self.order_macro, f"{self.order_macro}_of(s, what)"),
        ]

    def functions(self) -> dict[str, Callable[[str, str], str]]:
        """Functions of Python that the macros use, by name; they take a text and its name, and raise ValueError."""
        if not self.same:
            return {}
        same, ranks = self._table(self.same), self._table(self.ranks)
        end = self.ranks[(self.characters or "").index(" ")]

        def replaced(table: dict[int, int], blank: str) -> Callable[[str, str], str]:
            def replace(text: str, what: str) -> str:
                try:
                    made = text.translate(table)
                except _UnknownCharacterError:
                    raise ValueError(f"{what}{self.unknown}{text}") from None
                return made.rstrip(blank) if blank else made

            return replace

        return {
            f"{self.macro}_of": replaced(same, " " if self.pads else ""),
            f"{self.pattern_macro}_of": replaced(same, ""),
            f"{self.order_macro}_of": replaced(ranks, end if self.pads else ""),
        }

    def _table(self, to: str) -> dict[int, int]:
        return _CharacterTable(
            {ord(character): ord(other) for character, other in zip(self.characters or "", to, strict=True)}
        )

    @property
    def unknown(self) -> str:
        """What an error says between the name of a text and the text."""
        return f": {self.collation} is not known here for a character of this text: "

    def _matching(self, pattern: str, key: str) -> str:
        if not pattern:
            return key
        fail = f"CAST(error(what || {quoted(self.unknown)} || s) AS VARCHAR)"
        return f"CASE WHEN NOT regexp_full_match(s, {quoted(pattern)}, 's') THEN {fail} ELSE {key} END"


class _CharacterTable(dict[int, int]):
    """A table of characters for `str.translate`, which takes a LookupError for a character that stays."""

    def __missing__(self, code: int) -> int:
        raise _UnknownCharacterError(code)


class _UnknownCharacterError(Exception):
    """A character whose weight is not known."""


@cache
def collation_key(collation: str) -> CollationKey | None:
    """How texts of a collation are compared; None if it is not known here."""
    pads = bool(_PADS.match(collation))
    if collation in _BY_CODE:
        return CollationKey(collation, pads, _BY_CODE[collation])
    if collation == "utf8mb4_0900_as_cs":
        return CollationKey(collation, pads, _PRINTABLE, is_total=False)
    groups = _weights().get(_SAME.get(collation, collation))
    if groups is None:
        return None
    if collation in _ONLY_ASCII:
        groups = [kept for group in groups if (kept := "".join(filter(str.isascii, group)))]
    return CollationKey(
        collation,
        pads,
        "".join(groups),
        "".join(_first(group) * len(group) for group in groups),
        "".join(chr(_FIRST_RANK + rank) * len(group) for rank, group in enumerate(groups)),
    )


def _first(group: str) -> str:
    """The character for all that are equal: in lower case and of ASCII, if there is such a character."""
    return next((character for character in group if character.isascii() and not character.isupper()), group[0])


def quoted(text: str) -> str:
    """A text as a literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"


@cache
def _weights() -> dict[str, list[str]]:
    weights: dict[str, list[str]] = json.loads(FILE.read_text())
    return weights


def _in_class(characters: str) -> str:
    return re.sub(r"([\\\]\[^-])", r"\\\1", characters)


def _macro(name: str, body: str) -> str:
    return f"CREATE OR REPLACE TEMP MACRO {name}(s, what) AS {body}"
