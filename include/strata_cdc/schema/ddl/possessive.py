"""Regular expressions with possessive groups (`(...)*+`) for every supported version of Python.
Not here: the expressions (`lexer.py`, `secrets.py`).

Before 3.11.5, if the last attempt of a possessive group fails in its middle, the search continues where that attempt
had stopped (gh-106052): `'a''` was taken for a complete text, and passwords were shown. Debian 12 has 3.11.2.
"""

from __future__ import annotations

import re
import sys

_IS_SOUND = sys.version_info >= (3, 11, 5)
_PART = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(|(?P<end>\))(?P<times>[*+?]|\{\d*,?\d*\})?(?P<possessive>\+)?|.", re.DOTALL
)
"""An escaped character, a set, the begin or end of a group with its quantifier, any other character."""


def compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """As `re.compile`."""
    return re.compile(pattern if _IS_SOUND else as_atomic(pattern), flags)


def as_atomic(pattern: str) -> str:
    """The pattern with `(?>(...)*)` for each `(...)*+`: the same matches, but it uses memory for each repetition."""
    written: list[str] = []
    begins: list[int] = []
    for match in _PART.finditer(pattern):
        if match[0] == "(":
            begins.append(len(written))
        elif match["end"] and begins:
            begin = begins.pop()
            if match["possessive"]:
                written[begin] = f"(?>{written[begin]}"
                written.append(f"){match['times']})")
                continue
        written.append(match[0])
    return "".join(written)
