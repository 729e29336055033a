"""Whether a stored text contains another text, in any case. The database evaluates it.
Not here: which texts are searched (`search.py`, `catalogue.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

_ESCAPE: Final = "\\"
_WILDCARDS: Final = str.maketrans({sign: _ESCAPE + sign for sign in (_ESCAPE, "%", "_")})
_GLOB_SIGNS: Final = "*?["


def contains(text: sa.ColumnElement[str], part: str, dialect: Dialect) -> sa.ColumnElement[bool]:
    """Whether a text contains another text; case does not matter.

    Args:
        text: A column, or an expression.
        part: The text to find. Wildcards in it have no special meaning.
        dialect: Of the database that runs the query.
    """
    if dialect.name != "sqlite":
        return _like(sa.func.lower(text), part.lower())
    if "\0" in part:
        # LIKE and GLOB read only up to the first NUL.
        return sa.func.instr(sa.func.lower(text), part.lower()) > 0
    # SQLite's LIKE and lower() know the case of ASCII only; lower() would copy each text, which takes twice the time.
    beyond = next((sign for sign in part if not sign.isascii()), None)
    if beyond is None:
        return _like(text, part)
    either = sa.or_(*(_like(text, case) for case in _cases(beyond)))
    # GLOB takes three times as long as LIKE, so it is used only for the few texts that have the first such character.
    return either & text.op("GLOB", is_comparison=True)(f"*{''.join(map(_glob, part))}*")


def _like(text: sa.ColumnElement[str], part: str) -> sa.ColumnElement[bool]:
    return text.like(f"%{part.translate(_WILDCARDS)}%", escape=_ESCAPE)


def _cases(sign: str) -> list[str]:
    """A character in both cases, if its other case is one character too."""
    return sorted({case for case in (sign, sign.lower(), sign.upper()) if len(case) == 1})


def _glob(sign: str) -> str:
    cases = _cases(sign)
    return f"[{''.join(cases)}]" if len(cases) > 1 or sign in _GLOB_SIGNS else sign
