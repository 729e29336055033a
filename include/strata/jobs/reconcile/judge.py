"""What is said of one table whose rows the server has given.
Not here: reading them (`reconcile_source.py`), comparing rows (`compare.py`)."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa  # noqa: TID253  only those who compare import this module
from msgspec.structs import replace

from strata.jobs.prove.replay import TableState
from strata.jobs.reconcile.compare import NOTHING, Shown, compare_by_key, compare_multisets, doubled
from strata.jobs.reconcile.lake_rows import LakeTable
from strata.jobs.reconcile.landed_changes import touched_keys
from strata.jobs.reconcile.mirrored import mirror_of
from strata.jobs.reconcile.parts import PARTS, Chosen, Parted, can_be_parted
from strata.jobs.reconcile.published import reach_of
from strata.jobs.reconcile.reading import hidden_of
from strata.jobs.reconcile.report import Against, Outcome, TableReport
from strata.schema.apply.diff import diff
from strata.schema.history.historian import History
from strata.schema.history.sql_store import SchemaStore
from strata.schema.model.folding import fold_name
from strata.tables.convert import state_schema
from strata.tables.layout import column_name
from strata.tables.read import read_batches, read_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from strata.config.settings import Source
    from strata.events.landed import LandedStream
    from strata.gtid.sets import GtidSet
    from strata.jobs.reconcile.compare import Compared
    from strata.jobs.reconcile.lake_rows import LakeRows
    from strata.jobs.reconcile.past import SourcePast, TablePast
    from strata.jobs.reconcile.published import Reach
    from strata.jobs.reconcile.reading import Reading, Wanted
    from strata.schema.model.definition import TableDefinition, TableName


def judge(
    source: Source, engine: sa.Engine, past: SourcePast, stream: LandedStream, reading: Reading, wanted: Wanted
) -> TableReport:
    """Compares one table.

    Args:
        source: Its source.
        engine: The store.
        past: The history up to the place where the reading ended, or further.
        stream: Likewise what has landed.
        reading: What the server has said.
        wanted: How to compare.

    Raises:
        StrataError: The log does not tell what the rows are.
    """
    judged = _Judge(source, engine, past.table(reading.name), stream, reading)
    report = TableReport(str(reading.name), Outcome.INCONCLUSIVE, gtid_executed=str(reading.seen))
    refusal = judged.refusal()
    if refusal is not None:
        return replace(report, reasons=(refusal,))
    drift = judged.drift()
    if drift:
        return replace(report, outcome=Outcome.MISMATCH, definition=drift, different=1)
    return judged.compared(report, wanted)


class _Judge:
    def __init__(
        self, source: Source, engine: sa.Engine, past: TablePast, stream: LandedStream, reading: Reading
    ) -> None:
        self._source, self._engine, self._stream, self._reading = source, engine, stream, reading
        self._last = stream.seq_at_position(reading.end)
        self._settled = _settled(stream, reading.seen, self._last)
        self._reach: Reach = reach_of(engine, stream, past.names, self._last)
        self._mirror = mirror_of(source, reading.name, self._last)
        if self._mirror is not None:
            self._reach = replace(self._reach, upto=self._mirror.seq, reason=self._mirror.said)
        self._past = past.until(max(self._last, self._reach.upto))

    def refusal(self) -> str | None:
        """Why the table cannot be compared at all."""
        turned = self._past.later(min(self._reach.upto, self._settled))
        if turned:
            gtid = self._stream.record_at(turned[0])[1].gtid
            if turned[0] <= self._reach.upto:
                return f"a statement changed the table while it was read ({gtid}): run this once more"
            return f"a statement changed the table behind what is published ({gtid}): {self._reach.reason}"
        last, server = self._past.last, self._reading.definition
        if last is not None and last.gap:
            return f"its definition is not known: {last.gap}"
        if server is not None and server.engine not in {None, "InnoDB"}:
            return f"its engine is {server.engine}: a SELECT of it may show rows that are in no binlog yet"
        return None

    def drift(self) -> tuple[str, ...]:
        """What the history says of the table's columns and key, and the server does not."""
        known, server = self._past.definition, self._reading.definition
        if known is None or server is None:
            return (
                () if known is server else ("- the table, which the server does not have" if known else "+ the table",)
            )
        if _shape(known) == _shape(server):
            return ()
        return tuple(str(one) for one in diff(known, server)) or ("~ order of columns, or the primary key",)

    def compared(self, report: TableReport, wanted: Wanted) -> TableReport:
        """Compares the rows."""
        definition, server = self._past.definition, self._reading.rows
        if definition is None or server is None:
            return replace(report, reasons=("the table was dropped",))
        shown = Shown(wanted.differences, hidden_of(wanted, self._reading.name))
        landed = self._landed(definition)
        report = replace(report, against=Against.CHANGES if self._mirror is None else Against.MIRROR)
        if isinstance(server, Parted):
            return self._in_parts(report, definition, server, landed, shown)
        lake = self._lake(self._in_memory(definition, server), landed)
        return self._one(report, lake, server.cast(state_schema(definition)), shown)

    def _in_memory(self, definition: TableDefinition, server: pa.Table) -> LakeTable:
        """The lake's rows, of a sample those with its keys alone, if these can be told."""
        asked, key = self._reading.asked, [column_name(name) for name in definition.primary_key]
        chosen = None
        if asked is not None and can_be_parted(self._past, definition):
            chosen = Chosen(key, [server.select(key).cast(asked.schema), asked])
        mirror = None if self._mirror is None else self._mirror.mirror
        if chosen is None:
            return LakeTable(self._read, self._past, self._reach, None if mirror is None else mirror.to_arrow())
        read = partial(self._read_chosen, chosen)
        mirrored = None
        if mirror is not None:
            mirrored = pa.concat_tables([mirror.schema.empty_table(), *map(chosen.rows, mirror.batches())])
        return LakeTable(read, self._past, self._reach, mirrored)

    def _read(self, name: TableName) -> list[pa.Table]:
        return read_columns(self._source.lake, self._source.name, name)

    def _read_chosen(self, chosen: Chosen, name: TableName) -> list[pa.Table]:
        found = [chosen.changes(batch) for batch in read_batches(self._source.lake, self._source.name, name)]
        schemas = {part.schema.to_string(): part.schema for part in found}
        return [pa.concat_tables([part for part in found if part.schema.equals(schema)]) for schema in schemas.values()]

    def _lake(self, table: LakeTable, landed: Sequence[pa.Table]) -> LakeRows:
        lake = table.rows(self._reading.seen, self._settled)
        return replace(lake, touched=pa.concat_tables([lake.touched, *landed]))

    def _one(self, report: TableReport, lake: LakeRows, server: pa.Table, shown: Shown) -> TableReport:
        """Compares a table that is in memory."""
        definition = lake.state.definition
        report = replace(report, lake_rows=lake.state.rows.num_rows, server_rows=server.num_rows)
        if definition.primary_key:
            if any(server[column_name(name)].null_count for name in definition.primary_key):
                return replace(report, reasons=("its key holds zero dates, which the lake does not tell apart",))
            found = compare_by_key(lake, server, self._reading.asked, shown)
        elif lake.touched.num_rows or lake.known is not None:
            return replace(report, reasons=(self._keyless(lake),))
        else:
            found = compare_multisets(lake, server, shown)
        return self._said(report, lake.doubled, found, shown)

    def _in_parts(
        self, report: TableReport, definition: TableDefinition, server: Parted, landed: Sequence[pa.Table], shown: Shown
    ) -> TableReport:
        """Compares a large one."""
        schema = state_schema(definition)
        key = [column_name(name) for name in definition.primary_key]
        found, doubled_rows, lake_rows = NOTHING, [], 0
        with ExitStack() as files:
            names = sorted(self._past.names) if self._mirror is None else [self._past.name]
            changes = {name: files.enter_context(Parted(key)) for name in names}
            for name, parted in changes.items():
                for batch in read_batches(self._source.lake, self._source.name, name):
                    parted.put_changes(batch)
            mirror = None if self._mirror is None else files.enter_context(Parted(key))
            if mirror is not None and self._mirror is not None:
                for batch in self._mirror.mirror.batches():
                    mirror.put(batch)
            for number in range(PARTS):
                mirrored = None if mirror is None else pa.concat_tables(mirror.part(number) or [schema.empty_table()])
                read = partial(_part, changes, number)
                lake = self._lake(LakeTable(read, self._past, self._reach, mirrored), landed)
                state = TableState(lake.state.definition, server.own(lake.state.rows, number))
                rows = pa.concat_tables(server.part(number)).cast(schema)
                found = found.plus(compare_by_key(replace(lake, state=state), rows, None, shown), shown)
                doubled_rows.append(server.own(lake.doubled, number))
                lake_rows += state.rows.num_rows
        report = replace(report, lake_rows=lake_rows, server_rows=server.rows)
        return self._said(report, pa.concat_tables(doubled_rows), found, shown)

    def _keyless(self, lake: LakeRows) -> str:
        if lake.known is not None:
            return "it has no primary key, and rows may be from before the stream"
        return f"it has no primary key, and {lake.touched.num_rows:,} rows changed behind what is compared; " + (
            self._reach.reason or "run this once more in a quiet moment"
        )

    def _landed(self, definition: TableDefinition) -> list[pa.Table]:
        """Keys of changes that are landed and not published."""
        history = History(SchemaStore(self._engine), self._source.name)
        schema = state_schema(definition)
        key = definition.primary_key or tuple(column.name for column in definition.columns)
        names = [column_name(name) for name in key]
        wanted = pa.schema([schema.field(name) for name in names])
        return [
            part.rename_columns(names).cast(wanted)
            for span in self._reach.left
            for part in touched_keys(self._stream, history, self._reading.name, key, span)
        ]

    def _said(self, report: TableReport, again: pa.Table, found: Compared, shown: Shown) -> TableReport:
        twice = doubled(again, shown)
        different = found.different + again.num_rows
        if different:
            outcome = Outcome.MISMATCH
        elif found.compared or not (report.server_rows or report.lake_rows):
            outcome = Outcome.MATCH
        else:
            outcome = Outcome.INCONCLUSIVE
        return replace(
            report,
            outcome=outcome,
            reasons=tuple(self._limits(found)),
            compared=found.compared,
            different=different,
            changed=found.changed,
            not_covered=found.not_covered + found.partial,
            differences=(*twice, *found.differences)[: shown.most],
        )

    def _limits(self, found: Compared) -> list[str]:
        said = []
        if found.changed and self._reach.reason:
            said.append(f"rows that changed later are left out: {self._reach.reason}")
        if found.not_covered:
            said.append(
                f"{found.not_covered:,} rows are from before the stream and unchanged since: only a dump has them"
            )
        if found.partial:
            said.append(f"{found.partial:,} rows have columns that no image since the stream's beginning has")
        logged = SchemaStore(self._engine).statement_changes(self._source.name, 0, self._last)
        if any(not change.tables or self._past.names & set(change.tables) for change in logged):
            said.append("rows were changed by a statement, and the binlog does not hold them: `strata intervals`")
        return said


def _part(changes: Mapping[TableName, Parted], number: int, name: TableName) -> list[pa.Table]:
    return changes[name].part(number) if name in changes else []


def _settled(stream: LandedStream, seen: GtidSet, last_seq: int) -> int:
    """Ordinal of the last landed transaction that is in a set with all before it."""
    low, high = stream.first_seq - 1, last_seq
    while low < high:
        middle = (low + high + 1) // 2
        if stream.executed_at(middle) <= seen:
            low = middle
        else:
            high = middle - 1
    return low


def _shape(definition: TableDefinition) -> object:
    """What rows depend on."""
    columns = [
        (fold_name(one.name), one.column_type, one.character_set, one.nullable, one.generated)
        for one in definition.columns
    ]
    return columns, [fold_name(name) for name in definition.primary_key]
