"""The partitions in statements, as far as the rows of each partition can be determined.
Not here: the rest of ALTER TABLE (`alter.py`), the partitions of a table over time (`schema/history/`)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.ddl.cursor import STRINGS, TokenCursor
from strata_cdc.schema.ddl.lexer import NUMBER
from strata_cdc.schema.model.partitions import BorderValue, Function, Partition, Partitioning
from strata_cdc.schema.model.time_zones import offset_of

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext

_DAY_ONE: Final = 366
"""TO_DAYS of 0001-01-01, which is day 1 in Python."""


class PartitionVerb(StrEnum):
    """What a statement does to partitions."""

    ADD = "ADD"
    DROP = "DROP"
    REORGANIZE = "REORGANIZE"
    EXCHANGE = "EXCHANGE"
    UNCHECKED = "unchecked"
    """EXCHANGE ... WITHOUT VALIDATION: rows may be in a partition to which their values do not belong."""
    BY = "PARTITION BY"
    """All partitions are replaced, or none is left (REMOVE PARTITIONING)."""
    NONE = "none"
    """No row and no bound changes."""


class PartitionStep(Struct, frozen=True):
    """What an ALTER TABLE does to partitions."""

    verb: PartitionVerb
    names: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()
    partitioning: Partitioning | None = None


_NO_BORDERS: Final = frozenset({"TRUNCATE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR", "DISCARD"})


def read_partitioning_clause(text: str, context: DdlContext) -> Partitioning | None:
    """The partitions of `PARTITION BY ...`; None if the rows of a partition cannot be determined (HASH, KEY,
    expressions).

    Raises:
        DdlError: The text ends too early, or a value is not understood.
    """
    return _clause(TokenCursor(text, context))


def _clause(cursor: TokenCursor) -> Partitioning | None:
    cursor.expect("PARTITION")
    cursor.expect("BY")
    kind = cursor.take_any("RANGE", "LIST")
    if kind is None:
        return None
    is_range = kind == "RANGE"
    if cursor.accept("COLUMNS"):
        columns, function = _names(cursor), Function.ITSELF
    else:
        expression = _expression(cursor)
        if expression is None:
            return None
        columns, function = (expression[0],), expression[1]
    while not cursor.at_end() and not (cursor.word == "(" and cursor.ahead(1) == "PARTITION"):
        cursor.skip_part()
    return Partitioning(is_range, columns, function, _definitions(cursor))


def read_partition_step(statement: str, context: DdlContext) -> PartitionStep:
    """What an ALTER TABLE that names partitions does to them.

    Raises:
        DdlError: It is not understood.
    """
    cursor = TokenCursor(statement, context)
    while not cursor.at_end():
        if cursor.word in _VERBS and cursor.ahead(1) == "PARTITION":
            return _step(cursor, cursor.value().upper())
        if cursor.sees("CONVERT", "TABLE"):
            return _converted(cursor)
        if cursor.sees("PARTITION", "BY"):
            return PartitionStep(PartitionVerb.BY, partitioning=_clause(cursor))
        if cursor.sees("REMOVE", "PARTITIONING"):
            return PartitionStep(PartitionVerb.BY)
        cursor.at += 1
    return PartitionStep(PartitionVerb.NONE)


def copied_partitions(statement: str, context: DdlContext) -> tuple[tuple[str, ...], bool]:
    """The partitions whose rows an ALTER TABLE copies (REORGANIZE and REBUILD PARTITION), and whether to new lists of
    values. The server drops rows that fit into no partition: into no list any more (MariaDB: sometimes also if the new
    DEFAULT would take them), or into no range since they came WITHOUT VALIDATION.

    Raises:
        DdlError: It is not understood.
    """
    cursor = TokenCursor(statement, context)
    has_lists = ("VALUES", "IN") in pairwise(cursor.words) or "DEFAULT" in cursor.words
    while not cursor.at_end():
        if cursor.word in {"REORGANIZE", "REBUILD"} and cursor.ahead(1) == "PARTITION":
            cursor.at += 2
            cursor.take_any("NO_WRITE_TO_BINLOG", "LOCAL")
            return ("ALL",) if cursor.accept("ALL") else cursor.listed(cursor.name), has_lists
        cursor.at += 1
    return (), False


_VERBS: Final = _NO_BORDERS | {"ADD", "DROP", "REORGANIZE", "EXCHANGE", "IMPORT", "COALESCE", "CONVERT"}


def _step(cursor: TokenCursor, verb: str) -> PartitionStep:
    cursor.expect("PARTITION")
    if verb in _NO_BORDERS:
        return PartitionStep(PartitionVerb.NONE)
    cursor.take_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.take_all("IF", "NOT", "EXISTS"):
        cursor.fail("whether the partitions were there is not known,")
    cursor.take_all("IF", "EXISTS")
    if verb == "ADD":
        return PartitionStep(PartitionVerb.ADD, partitions=_definitions(cursor))
    names = cursor.listed(cursor.name)
    if verb in {"DROP", "CONVERT"}:
        return PartitionStep(PartitionVerb.DROP, names)
    if verb == "REORGANIZE":
        cursor.expect("INTO")
        return PartitionStep(PartitionVerb.REORGANIZE, names, _definitions(cursor))
    if verb != "EXCHANGE":
        cursor.fail("rows come to partitions, or move in a way that is not known,")
    unchecked = any(cursor.words[at : at + 2] == ["WITHOUT", "VALIDATION"] for at in range(len(cursor.words)))
    return PartitionStep(PartitionVerb.UNCHECKED if unchecked else PartitionVerb.EXCHANGE, names)


def _converted(cursor: TokenCursor) -> PartitionStep:
    """CONVERT TABLE t TO PARTITION p VALUES ... [WITH | WITHOUT VALIDATION], of MariaDB."""
    cursor.at += 2
    cursor.table_name()
    cursor.expect("TO")
    added = _definition(cursor)
    if cursor.take_all("WITHOUT", "VALIDATION"):
        return PartitionStep(PartitionVerb.UNCHECKED, (added.name,))
    return PartitionStep(PartitionVerb.ADD, partitions=(added,))


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = cursor.listed(cursor.name)
    cursor.expect(")")
    return names


def _expression(cursor: TokenCursor) -> tuple[str, Function] | None:
    """`(column)` or `(FUNCTION(column))`; None for any other."""
    cursor.expect("(")
    function = Function.ITSELF
    if cursor.word in set(Function) and cursor.ahead(1) == "(":
        function = Function(cursor.value().upper())
        cursor.expect("(")
    if not cursor.sees_name():
        return None
    column = cursor.name()
    closing = 1 if function is Function.ITSELF else 2
    if any(not cursor.accept(")") for _ in range(closing)):
        return None
    return column, function


def _definitions(cursor: TokenCursor) -> tuple[Partition, ...]:
    cursor.expect("(")
    partitions = []
    while cursor.word == "PARTITION":
        partitions.append(_definition(cursor))
        while not cursor.at_end() and cursor.word not in {",", ")"}:
            cursor.skip_part()
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(partitions)


def _definition(cursor: TokenCursor) -> Partition:
    cursor.expect("PARTITION")
    name = cursor.name()
    cursor.expect("VALUES")
    if cursor.take_all("LESS", "THAN"):
        below: tuple[BorderValue, ...] = (None,) if cursor.accept("MAXVALUE") else _tuple(cursor, maximum="MAXVALUE")
        return Partition(name, below=below)
    cursor.expect("IN")
    return Partition(name, values=_list(cursor))


def _tuple(cursor: TokenCursor, maximum: str = "NULL") -> tuple[BorderValue, ...]:
    cursor.expect("(")
    values = cursor.listed(lambda: None if cursor.accept(maximum) else _value(cursor))
    cursor.expect(")")
    return values


def _list(cursor: TokenCursor) -> tuple[tuple[BorderValue, ...], ...]:
    if cursor.ahead(1) != "(":
        return tuple((value,) for value in _tuple(cursor))
    cursor.expect("(")
    tuples = cursor.listed(lambda: _tuple(cursor))
    cursor.expect(")")
    return tuples


def _value(cursor: TokenCursor) -> BorderValue:
    if cursor.word in {"YEAR", "TO_DAYS", "UNIX_TIMESTAMP"} and cursor.ahead(1) == "(":
        function = cursor.value().upper()
        cursor.expect("(")
        text = cursor.string()
        cursor.expect(")")
        return _computed(cursor, function, text)
    sign = -1 if cursor.accept("-") else 1
    if cursor.word in STRINGS and sign == 1:
        return _whole(cursor, cursor.string())
    text = cursor.value() if cursor.word == NUMBER else ""
    if not text.lstrip("-").isdigit():
        cursor.fail("expected a plain number or text as a partition's value")
    return _whole(cursor, sign * int(text))


def _whole(cursor: TokenCursor, value: BorderValue) -> BorderValue:
    if cursor.word not in {",", ")"}:
        cursor.fail("expected a plain value of a partition")
    return value


def _computed(cursor: TokenCursor, function: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        cursor.fail(f"{text!r} is no plain date")
    if moment.tzinfo is not None:
        cursor.fail(f"{text!r} is converted to the session's time zone")
    if function == "YEAR":
        return moment.year
    if function == "TO_DAYS":
        return moment.date().toordinal() - date(1, 1, 1).toordinal() + _DAY_ONE
    offset = offset_of(cursor.context.time_zone)
    if offset is None or moment.microsecond:
        cursor.fail("UNIX_TIMESTAMP depends on the session's time zone, which is not known")
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(seconds=1) - offset
