"""The versions of a table's rows that were valid at some moment of a range, from the history of its mirror.
Not here: histories (`mirrors/histories/`), what a query makes of the versions (`query.py`).

A history shows its columns as other engines read them, without the texts of values that no column holds (`_invalid`).
A query whose columns may have had such values is refused.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.arrow_columns import no_rows
from strata_cdc.changes.arrow import BEFORE, arrow_type, is_calendar, may_be_invalid
from strata_cdc.clock import from_micros
from strata_cdc.dialects.queries.columns import kind_of, loaded_as
from strata_cdc.errors import PastUnknownError, QueryError, Usage
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import INVALID_COLUMN, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.dialects.view_source import ColumnSource
    from strata_cdc.mirrors.histories.history import MirrorHistory
    from strata_cdc.past.needed_rows import NeededRows

_FROM, _TO, _GTID, _SEQ = "_valid_from", "_valid_to", "_valid_from_gtid", "_valid_from_seq"
_FAILED: Final = "Invalid Input Error: "
"""How DuckDB begins the message of an error that a query raises."""
_BATCH_ROWS: Final = 1 << 17
_BEFORE_ALL: Final = -1


class VersionBounds(Struct, frozen=True):
    """Which versions are wanted, by the ordinals of transactions."""

    begin: int | None
    """The range begins with the state after this transaction; None: before all that there was."""
    end: int
    """It ends with the state after this transaction."""


def row_versions(history: MirrorHistory, bounds: VersionBounds, needed: NeededRows) -> pa.Table:
    """The versions that were valid at some moment of a range, in no order.

    Args:
        history: The history, up to the query's moment.
        bounds: The range; it does not end later than the history.
        needed: The requested columns by their numbers in the definition; the next three are when the version began,
            when it ended (microseconds UTC; NULL if it is valid at the end of the history), and the GTID of the
            transaction that made it.

    Returns:
        The columns as c0, c1 and so on, in the types that DuckDB gets; without columns, `n` with a NULL for each row.

    Raises:
        PastUnknownError: The table had rows in the range that are not in the history.
        QueryError: A value of a requested column is not known, or no column holds it.
        LakeUnavailableError: The storage does not answer.
    """
    _refuse_earlier(history, bounds)
    count = len(history.mirror.definition.columns)
    own = [number for number in needed.numbers if number < count]
    _refuse_texts(history, own)
    rows = _filled(_computed(history, bounds, own, needed), history)
    made: dict[str, pa.ChunkedArray] = {}
    for number in own:
        column = history.mirror.definition.columns[number]
        values = rows[f"c{number}"]
        if is_calendar(column) and not column.nullable and values.null_count:
            raise _no_column(history, column.name, "0000-00-00")
        made[f"c{number}"] = values.cast(arrow_type(column)).cast(loaded_as(kind_of(column)))
    for number in (number for number in needed.numbers if number >= count):
        name = (_FROM, _TO, _GTID)[number - count]
        made[f"c{number}"] = rows[name] if name == _GTID else rows[name].cast(pa.timestamp("us"))
    return pa.table(made or {"n": pa.nulls(rows.num_rows)})


def _refuse_earlier(history: MirrorHistory, bounds: VersionBounds) -> None:
    begins = history.begins_at
    if history.is_whole or (bounds.begin is not None and bounds.begin >= begins.seq):
        return
    if begins.committed_at:
        time = from_micros(begins.committed_at).astimezone(UTC).replace(tzinfo=None)
        known = f"TIMESTAMP '{time.isoformat(' ', 'microseconds')}'"
    else:
        known = f"GTID '{begins.gtid_executed}'"
    raise PastUnknownError(
        f"which versions the rows had before transaction {begins.seq} is not known: the history of the table's mirror "
        "begins there, with rows that were there before",
        source=history.mirror.source,
        table=str(history.mirror.table),
        gtid=begins.gtid_executed or None,
        remedy=f"Name a range that begins there: FOR SYSTEM_TIME BETWEEN {known} AND ...",
    )


def _computed(history: MirrorHistory, bounds: VersionBounds, own: Sequence[int], needed: NeededRows) -> pa.Table:
    # Imported here: only queries need DuckDB.
    from strata_cdc.mirrors.histories.computed import history_batches  # noqa: PLC0415  see above

    query, files, schema = history.computed({known.number: known.ranges for known in needed.ranges})
    wanted = pa.schema([*(schema.field(number) for number in own), *map(schema.field, (_FROM, _TO, _GTID, _SEQ))])
    first = history.begins_at.seq if history.is_whole else _BEFORE_ALL
    condition = f"coalesce({_SEQ}, {first}) <= {bounds.end}"
    if bounds.begin is not None:
        condition += f" AND (_valid_to_seq IS NULL OR _valid_to_seq > {bounds.begin})"
    try:
        batches = list(history_batches(query, files, wanted, _BATCH_ROWS, condition))
    except Usage as error:
        why = error.message.removeprefix(_FAILED)
        raise QueryError(
            f"not every value of the versions of {history.mirror.table} is known: {why}",
            remedy="Leave the column out, or name a range without these versions.",
        ) from None
    names = [*(f"c{number}" for number in own), _FROM, _TO, _GTID, _SEQ]
    return pa.concat_tables([no_rows(wanted), *batches]).rename_columns(names)


def _filled(rows: pa.Table, history: MirrorHistory) -> pa.Table:
    """The versions with the time and GTID of the statement that made the table and its first rows."""
    if not history.is_whole:
        return rows
    first = history.spans[0]
    is_first = pc.is_null(rows[_SEQ])
    for name, value in ((_FROM, first.committed_at or None), (_GTID, first.gtid)):
        kind = rows.schema.field(name).type
        filled = pc.if_else(is_first, pa.scalar(value, kind), rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), name, filled)
    return rows


# Values that no column holds ------------------------------------------------------------------------


def _refuse_texts(history: MirrorHistory, own: Sequence[int]) -> None:
    """Refuses columns that had values which only `_invalid` has: the history shows NULL or an empty text for them."""
    names: dict[str, str] = {}
    for number in own:
        names |= _names(history, number)
        if any(map(_makes_texts, history.column_sources(number))):
            raise _no_column(history, history.mirror.definition.columns[number].name, "one that DDL gave to it")
    for name, text in _texts(history) if names else ():
        if name in names:
            raise _no_column(history, names[name], text)
    _refuse_defaults(history, own)


def _refuse_defaults(history: MirrorHistory, own: Sequence[int]) -> None:
    """Refuses columns to which an INSERT that did not name them gave such a value: no row event has it then."""
    names: dict[str, str] = {}
    for number in own:
        if any(_has_text(column_source.lacking) for column_source in history.column_sources(number)):
            names |= _names(history, number)
    for name in _left_out(history) if names else ():
        if name in names:
            raise _no_column(history, names[name], "its default, which an INSERT gave to it")


def _names(history: MirrorHistory, number: int) -> dict[str, str]:
    """The names that a column had while it may have had such values, and its name now."""
    shown = history.mirror.definition.columns[number].name
    columns = [span.values[number].origin.column for span in history.spans]
    return {column.name: shown for column in columns if column is not None and may_be_invalid(column)}


def _makes_texts(column_source: ColumnSource) -> bool:
    """Whether DDL may have given a column values that only `_invalid` has."""
    has_text = _has_text(column_source) or _has_text(column_source.of_null)
    return has_text or (column_source.made is not None and column_source.made.texts is not None)


def _has_text(literal: ColumnSource | None) -> bool:
    return literal is not None and literal.literal_text is not None


def _left_out(history: MirrorHistory) -> Iterator[str]:
    """Columns that inserts did not name, where their images lack them."""
    for table in history.tables.values():
        for batch in table.batches(["_op", "_seq", "_missing"]):
            is_insert = pc.equal(batch["_op"], "insert")
            missing = batch.filter(pc.and_(is_insert, _inside(batch, history)))["_missing"]
            yield from pc.list_flatten(missing).unique().to_pylist()


def _texts(history: MirrorHistory) -> Iterator[tuple[str, str]]:
    """Columns and their values that only `_invalid` has, in the changes and the first rows."""
    for table in history.tables.values():
        if INVALID_COLUMN in table.columns.names:
            for batch in table.batches(["_seq", INVALID_COLUMN]):
                for entries in batch.filter(_inside(batch, history))[INVALID_COLUMN].drop_null().to_pylist():
                    yield from ((name.removeprefix(f"{BEFORE}."), text) for name, text in entries)
    texts = verbatim_names(history.base.definition)
    for batch in history.base.exact_batches(list(texts.values())) if texts else ():
        for name, of in texts.items():
            yield from ((name, text) for text in batch[of].drop_null().to_pylist())


def _inside(batch: pa.Table, history: MirrorHistory) -> pa.ChunkedArray:
    """Which changes the history has."""
    seqs = batch["_seq"]
    return pc.and_(pc.greater(seqs, history.begins_at.seq), pc.less_equal(seqs, history.reached.seq))


def _no_column(history: MirrorHistory, name: str, text: str) -> QueryError:
    return QueryError(
        f"{history.mirror.table} had a value of {name} for which the lake has no column: {text}",
        remedy=f"Leave {column_name(name)} out, or name one moment: FOR SYSTEM_TIME AS OF.",
    )
