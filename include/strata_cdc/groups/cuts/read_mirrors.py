"""A table of a group at a common cut: the mirrors of all sources as one table, whose key is (`_source`, key), or the
key alone if the settings declare that keys are global.
Not here: the cut (`common_cut.py`), one mirror (`mirrors`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.errors import DifferentRowsError, MirrorBehindError, SchemaMismatchError
from strata_cdc.mirrors.opened import open_mirror
from strata_cdc.mirrors.position import Naming
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.patterns import matches
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.owned import owners
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.tables.read import read_changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Group, Source
    from strata_cdc.groups.cuts.common_cut import Cut, SourceCut
    from strata_cdc.store.ledgers import ClosedInterval

SOURCE = "_source"


def read_table(group: Group, table: str, cut: Cut, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the rows of all sources at a cut, each exactly as its server had it there, with `_source`.

    Args:
        table: `database.table`.
        cut: A cut, as `common_cut` returns it.
        columns: The wanted columns; None for all. A column that a source does not have is NULL in its rows.

    Raises:
        SchemaGapError: A source does not have the table at the cut, or its definition there is not known.
        MirrorBehindError: A mirror has no state at the cut.
        SchemaMismatchError: A column has different types.
        DifferentRowsError: The table's keys are global, and a key is on two sources.
        StrataError: A mirror, a store or the lake cannot be read.
    """
    name = TableName.parse(table)
    tables: dict[str, pa.Table] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for source in group.sources:
        engine = open_store(source.store_url, OnMissing.EMPTY)
        try:
            position = cut.position_of(source.name)
            # Before the mirror: a source without the table has none, or one of rows that are gone.
            version = History(SchemaStore(engine), source.name).at(name, AtSeq(position.seq))
            keys[source.name] = version.definition.primary_key
            tables[source.name] = _at_cut(source, engine, name, position, cut)
        finally:
            engine.dispose()
    whole = united(tables, table)
    if matches(name, group.global_keys, folded=False):
        refuse_shared_keys(whole, keys, table)
    return whole if columns is None else whole.select([SOURCE, *columns])


def _at_cut(source: Source, engine: sa.Engine, table: TableName, cut: SourceCut, whole: Cut) -> pa.Table:
    naming = Naming(source.lineage, source.copied_from)
    opened = open_mirror(source.lake, source.name, str(table), whole.token, naming)
    if opened.at.seq < cut.seq and _has_changed(engine, source, table, opened.at.seq, cut.seq):
        raise MirrorBehindError(
            f"the mirror has a state after transaction {opened.at.seq} and none after {cut.seq}, where the cut is, "
            "and the table has changed in between",
            source=source.name,
            table=str(table),
            remedy=f"Run `strata mirror update --source {source.name}` after each interval, or take a newer cut.",
        )
    return opened.to_arrow()


def _has_changed(engine: sa.Engine, source: Source, table: TableName, after: int, until: int) -> bool:
    """Whether a table changed after a transaction, up to another."""
    store = SchemaStore(engine)
    if any(after < entry.seq <= until for entry in store.timeline(source.name, [table])):
        return True
    if any(removal.name == table for removal in store.row_removals(source.name, after, until)):
        return True
    intervals = TableIntervalLedger(engine).select(
        source.name, list(IntervalState), table=(table.database, table.table)
    )
    with_rows = {interval.start: interval.state for interval in intervals if interval.rows}
    # After them: intervals may become one meanwhile.
    marks = IntervalLedger(engine).all(source.name)
    owner = owners(marks)
    states = {owner(start): state for start, state in with_rows.items()}
    partly = []
    for interval in marks:
        if after < interval.last_seq and interval.after_seq < until and interval.start in states:
            is_inside = after <= interval.after_seq and interval.last_seq <= until
            if is_inside or states[interval.start] is not IntervalState.PUBLISHED:
                return True
            partly.append(interval)
    return any(_has_rows(source, table, interval, after, until) for interval in partly)


def _has_rows(source: Source, table: TableName, interval: ClosedInterval, after: int, until: int) -> bool:
    """Whether a change of a table in an interval is after a transaction, and not after another."""
    start, end = interval.start, interval.end
    seqs = read_changes(source.lake, source.name, table, columns=["_seq"], start=start, end=end)["_seq"]
    return bool(pc.any(pc.and_(pc.greater(seqs, after), pc.less_equal(seqs, until))).as_py())


def united(tables: Mapping[str, pa.Table], table: str) -> pa.Table:
    """Joins the rows of several tables into one table; columns are matched by name, without case.

    Raises:
        SchemaMismatchError: A column has different types.
    """
    fields: dict[str, tuple[pa.Field, str]] = {}
    for source, rows in tables.items():
        for field in rows.schema:
            known, where = fields.setdefault(fold_name(field.name), (field, source))
            if known.type != field.type:
                raise SchemaMismatchError(
                    f"{known.name} is {known.type} in {where} and {field.type} in {source}",
                    source=source,
                    table=table,
                    remedy="`strata doctor` names the DDL that made each; read the sources one by one until then.",
                )
    schema = pa.schema(
        [pa.field(SOURCE, pa.string()), *(pa.field(field.name, field.type) for field, _ in fields.values())]
    )
    parts = []
    for source, rows in tables.items():
        mine = {fold_name(name): rows.column(name) for name in rows.column_names}
        columns = [mine.get(name, pa.nulls(rows.num_rows, field.type)) for name, (field, _) in fields.items()]
        parts.append(pa.table([pa.array([source] * rows.num_rows, pa.string()), *columns], schema=schema))
    return pa.concat_tables(parts)


def refuse_shared_keys(rows: pa.Table, keys: Mapping[str, tuple[str, ...]], table: str) -> None:
    """Refuses rows if a key is on two sources.

    Raises:
        DifferentRowsError: A key is on two sources, or the sources have no common key.
    """
    folded = {tuple(map(fold_name, key)) for key in keys.values()}
    names = {fold_name(name): name for name in rows.column_names}
    if len(folded) != 1 or not next(iter(folded)):
        raise DifferentRowsError(
            "the keys of a table whose keys are global are different, or there are none", table=table
        )
    key = [names[name] for name in next(iter(folded))]
    counted = rows.group_by(key).aggregate([(SOURCE, "count"), (SOURCE, "min"), (SOURCE, "max")])
    shared = counted.filter(pa.compute.greater(counted[f"{SOURCE}_count"], 1))
    if shared.num_rows:
        first, last = shared[f"{SOURCE}_min"][0].as_py(), shared[f"{SOURCE}_max"][0].as_py()
        # The error never has the keys themselves: the settings may declare them sensitive.
        raise DifferentRowsError(
            f"{shared.num_rows} keys ({', '.join(key)}) are on two sources at the cut, the first on {first} and {last}",
            source=last,
            table=table,
            remedy="Their keys are not global: take the table out of `global_keys`, or find out which source is right.",
        )
