"""Versions of rows in FROM: FOR SYSTEM_TIME ALL, BETWEEN and FROM, and the columns that come after the table's own.
Not here: reading the clause (`statement_text.py`), the versions (`past/row_versions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.dialects.queries.values import Kind, ValueType
from strata_cdc.schema.model.types import parse_column_type

if TYPE_CHECKING:
    from sqlglot import exp

_TIME: Final = Kind(ValueType.DATETIME, fraction=6, shown_as=parse_column_type("timestamp(6)"))
VERSION_COLUMNS: Final[tuple[tuple[str, Kind], ...]] = (
    ("_valid_from", _TIME),
    ("_valid_to", _TIME),
    ("_gtid", Kind(ValueType.TEXT, collation="utf8mb4_bin", shown_as=parse_column_type("varchar(255)"))),
)
"""Names and kinds of the columns after the table's own."""


class WrittenMoment(Struct, frozen=True):
    """A moment as a statement has it."""

    text: str
    is_gtid: bool = False
    """Whether it is a GTID set, and not a time."""


class SystemTimeRange(Struct, frozen=True):
    """Which versions of rows are meant: those that were valid at some moment of a range."""

    begin: WrittenMoment | None = None
    """The first moment; None: all before the end."""
    end: WrittenMoment | None = None
    """The last moment; None: all up to the query's moment."""
    includes_end: bool = True
    """Whether the state at the end counts (BETWEEN), or only those before it (FROM ... TO)."""


def moment_of(version: exp.Version) -> WrittenMoment:
    """The moment of an `AS OF`, or of a bound, as `statement_text.py` makes them."""
    return WrittenMoment(version.expression.name, version.this == "GTID")


def range_of(version: exp.Version) -> SystemTimeRange:
    """The range of any other clause."""
    if version.args["kind"] == "ALL":
        return SystemTimeRange()
    begin, end = map(moment_of, version.expression.expressions)
    return SystemTimeRange(begin, end, version.args["kind"] == "BETWEEN")
