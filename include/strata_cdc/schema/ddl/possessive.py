"""Regular expressions with possessive groups (`(...)*+`) for every Python that we run on.
Not here: the expressions (`lexer.py`, `secrets.py`).

Before 3.11.5 a possessive group whose last attempt fails in its middle leaves the search where that attempt had come to
(gh-106052): `'a''` was a text with an end, and passwords were shown. Debian 12 has 3.11.2.
"""

from __future__ import annotations

import re
import sys

_IS_SOUND = sys.version_info >= (3, 11, 5)
_PIECE = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(|(?P<end>\))(?P<times>[*+?]|\{\d*,?\d*\})?(?P<possessive>\+)?|.", re.DOTALL
)
"""An escaped character, a set, the begin or end of a group with how often it may come, any other character."""


def compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """As `re.compile`."""
    return re.compile(pattern if _IS_SOUND else as_atomic(pattern), flags)


def as_atomic(pattern: str) -> str:
    """The pattern with `(?>(...)*)` for each `(...)*+`: the same matches, with memory for each repetition."""
    written: list[str] = []
    begins: list[int] = []
    for piece in _PIECE.finditer(pattern):
        if piece[0] == "(":
            begins.append(len(written))
        elif piece["end"] and begins:
            begin = begins.pop()
            if piece["possessive"]:
                written[begin] = f"(?>{written[begin]}"
                written.append(f"){piece['times']})")
                continue
        written.append(piece[0])
    return "".join(written)
