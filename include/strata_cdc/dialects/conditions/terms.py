"""A condition whose meaning is known: typed terms that leave nothing to the engine that evaluates them.
Not here: reading them (`read.py`), writing them (`sql.py`, `arrow.py`)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import date, datetime
    from decimal import Decimal


class ValueKind(Enum):
    """The kinds as which values are compared."""

    INTEGER = auto()
    DECIMAL = auto()
    DOUBLE = auto()
    TEXT = auto()
    DATE = auto()
    DATETIME = auto()
    TIMESTAMP = auto()
    """In UTC."""
    TIME = auto()
    """Microseconds."""


EXACT = frozenset({ValueKind.INTEGER, ValueKind.DECIMAL})
MOST_DIGITS = 38


class ColumnTerm(Struct, frozen=True):
    """A column of the table."""

    name: str
    kind: ValueKind
    collation: str | None = None
    digits: tuple[int, int] = (20, 0)
    """For exact numbers: digits before and after the point."""
    is_plain: bool = False
    """Whether all of its texts are known to be plain ASCII: they are labels."""


class Constant(Struct, frozen=True):
    """A literal."""

    kind: ValueKind
    value: int | Decimal | float | str | date | datetime
    digits: tuple[int, int] = (0, 0)


class Arithmetic(Struct, frozen=True):
    """An operation on integers: `+`, `-`, `*`, or `%` by a constant that is not 0."""

    operation: str
    left: Term
    right: Term


class Call(Struct, frozen=True):
    """CHAR_LENGTH or ABS; an integer."""

    function: str
    argument: Term


Term = ColumnTerm | Constant | Arithmetic | Call


class TextRule(Struct, frozen=True):
    """How two texts are compared."""

    folds: bool = False
    """Case is ignored."""
    trims: bool = False
    """Blanks at the end are ignored."""
    only_plain: bool = False
    """Only plain ASCII is compared (U+0020 to U+007E): for other texts, the collation has rules that are not known
    here."""


# What equality means in each collation, for plain ASCII; about other collations, nothing is assumed.
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


class Compare(Struct, frozen=True):
    """`=`, `<>`, `<`, `<=`, `>`, `>=`, `<=>`."""

    operator: str
    left: Term
    right: Term
    kind: ValueKind
    """The kind as which both sides are compared."""
    scale: int = 0
    """For DECIMAL: digits after the point."""
    text: TextRule = TextRule()


class Like(Struct, frozen=True):
    """LIKE, without escapes."""

    column: ColumnTerm
    pattern: str
    text: TextRule


class IsNull(Struct, frozen=True):
    """IS NULL."""

    column: ColumnTerm


class IsTruth(Struct, frozen=True):
    """IS TRUE, IS FALSE; IS UNKNOWN if `truth` is None."""

    condition: Node
    truth: bool | None


class Not(Struct, frozen=True):
    """NOT."""

    condition: Node


class Every(Struct, frozen=True):
    """AND."""

    conditions: tuple[Node, ...]


class Some(Struct, frozen=True):
    """OR."""

    conditions: tuple[Node, ...]


Node = Compare | Like | IsNull | IsTruth | Not | Every | Some


def columns_of(node: Node | Term) -> frozenset[str]:
    """Returns the names of the columns in a condition or term."""
    return frozenset(term.name for term in _terms(node))


def _terms(node: object) -> list[ColumnTerm]:
    if isinstance(node, ColumnTerm):
        return [node]
    parts: list[object] = []
    for name in getattr(node, "__struct_fields__", ()):
        value = getattr(node, name)
        parts += value if isinstance(value, tuple) else [value]
    return [term for part in parts if isinstance(part, Struct) for term in _terms(part)]


def guarded_columns(node: object) -> list[ColumnTerm]:
    """Returns the columns whose texts must be plain ASCII."""
    own = node.text if isinstance(node, (Compare, Like)) else None
    if own is not None and own.only_plain:
        return [term for term in _terms(node) if not term.is_plain]
    parts = getattr(node, "conditions", ()) or (getattr(node, "condition", None),)
    return [term for part in parts if part is not None for term in guarded_columns(part)]
