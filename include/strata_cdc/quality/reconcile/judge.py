"""The verdict on one table whose rows the server has given.
Not here: reading them (`reconcile_source.py`), comparing rows (`compare.py`)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, ChangeColumns
from strata_cdc.changes.binlog_changes import changes_of_table
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.errors import UndecodableTextError, UnreadableValueError
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.quality.reconcile.compare import NOTHING, ShownRows, compare_by_key, compare_multisets, doubled
from strata_cdc.quality.reconcile.lake_rows import LakeTable
from strata_cdc.quality.reconcile.mirrored import mirror_of
from strata_cdc.quality.reconcile.part_columns import defaults_of, part_columns, row_columns
from strata_cdc.quality.reconcile.parts import ChosenKeys, PartedRows
from strata_cdc.quality.reconcile.published import reach_of
from strata_cdc.quality.reconcile.reading import hidden_of
from strata_cdc.quality.reconcile.report import Against, ComparisonOutcome, TableReport
from strata_cdc.quality.reconcile.sides import Sides, by_schema, held_rows
from strata_cdc.schema.apply.diff import diff
from strata_cdc.schema.history.cascades import UNLOGGED, unlogged_cascades
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.convert import exact_schema
from strata_cdc.tables.current_rows import NO_SEQUENCE_ROW
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.read import read_batches
from strata_cdc.tables.verbatim import exact_names, opened, with_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.quality.reconcile.compare import ComparedTable
    from strata_cdc.quality.reconcile.lake_rows import LakeRows
    from strata_cdc.quality.reconcile.past import SourcePast, TablePast
    from strata_cdc.quality.reconcile.published import PublishedReach
    from strata_cdc.quality.reconcile.reading import ComparisonRequest, ServerReading
    from strata_cdc.schema.model.definition import TableDefinition, TableName


# Keys that changes touch which are landed and not published: decoded from the landed segments, and nothing kept.
_OF_VALUES = (UndecodableTextError, UnreadableValueError)
"""Why a row is put aside whose other values are known."""


def touched_keys(
    stream: LandedStream, history: History, name: TableName, key: Sequence[str], span: tuple[int, int]
) -> Iterator[pa.Table]:
    """The values of some columns in all images of the changes of a table.

    Args:
        history: Of the source.
        name: The table; it has one definition in this span.
        key: Its columns that are wanted; those of texts of what they do not hold follow (`exact_names`).
        span: Transactions first < seq <= last.

    Raises:
        StrataError: Rows cannot be decoded.
    """
    placement = PreparedPlacement(stream, *span)
    for lost in placement.lost():
        if not lost.tables or (name.database, name.table) in lost.tables:
            raise lost.error
    for step in changes_of_table(stream, history, name, placement, span):
        if isinstance(step, ChangeBatch):
            yield from _keys(step.batch, step.definition, key)
        elif isinstance(step, QuarantinedRows) and isinstance(step.error, _OF_VALUES):
            yield from _keys(step.rows, step.definition, key)
        else:
            raise step.error


def _keys(batch: pa.RecordBatch, definition: TableDefinition, key: Sequence[str]) -> Iterator[pa.Table]:
    """Of both images; columns are identified by index, since a table may have columns with our own names."""
    own = [fold_name(column.name) for column in definition.columns]
    ordinals = [own.index(fold_name(name)) for name in key]
    names = [column_name(definition.columns[at].name) for at in ordinals]
    parts = ChangeColumns(batch)
    afters, befores, invalid = parts.own, parts.before.flatten(), parts.fact("_invalid")
    texts = [name for name in exact_names(definition, names) if name not in names]
    for columns, prefix, without in (
        ([afters[at] for at in ordinals], "", "delete"),
        ([befores[at] for at in ordinals], f"{BEFORE}.", "insert"),
    ):
        beside = opened(pa.chunked_array([invalid]), texts, batch.num_rows, prefix)
        keys = pa.Table.from_arrays([*columns, *beside.values()], names=[*names, *texts])
        keys = keys.filter(pc.not_equal(parts.fact("_op"), without))
        # A partial image after it may lack its key, which it has kept; in a table without one any value may be NULL.
        yield with_all(keys, [*names, *texts]) if definition.primary_key else keys


_NO_KEYS = pa.table({})


def judge(
    source: Source,
    engine: sa.Engine,
    past: SourcePast,
    stream: LandedStream,
    reading: ServerReading,
    wanted: ComparisonRequest,
) -> TableReport:
    """Compares one table.

    Args:
        past: The history up to the position where the reading ended, or further.
        stream: Likewise what has landed.
        reading: What the server has returned.
        wanted: How to compare.

    Raises:
        StrataError: The rows do not follow from the log.
    """
    judged = _TableJudge(source, engine, past.table(reading.name), stream, reading)
    report = TableReport(str(reading.name), ComparisonOutcome.INCONCLUSIVE, gtid_executed=str(reading.seen))
    refusal = judged.refusal()
    if refusal is not None:
        return replace(report, reasons=(refusal,))
    drift = judged.drift()
    if drift:
        return replace(report, outcome=ComparisonOutcome.MISMATCH, definition=drift, different=1)
    return judged.compared(report, wanted)


class _TableJudge:
    def __init__(
        self, source: Source, engine: sa.Engine, past: TablePast, stream: LandedStream, reading: ServerReading
    ) -> None:
        self._source, self._engine, self._stream, self._reading = source, engine, stream, reading
        self._last = stream.seq_written_before(reading.end)
        self._settled = min(stream.contained_in(reading.seen, stream.seq_written_before(reading.begin)), self._last)
        self._reach: PublishedReach = reach_of(engine, stream, past.names, self._last)
        self._mirror = mirror_of(source, reading.name, self._last)
        if self._mirror is not None:
            # What it has cannot be missing, published or not: a dump has it from the server.
            known = min(self._settled, self._mirror.seq)
            left = tuple((max(first, known), last) for first, last in self._reach.left if last > known)
            self._reach = replace(self._reach, upto=self._mirror.seq, reason=self._mirror.reason, left=left)
        self._past = past.until(max(self._last, self._reach.upto))

    def refusal(self) -> str | None:
        """Why the table cannot be compared at all."""
        turned = self._past.later(min(self._reach.upto, self._settled))
        if turned:
            gtid = self._stream.record_at(turned[0])[1].gtid
            if turned[0] <= self._reach.upto:
                return f"a statement changed the table while it was read ({gtid}): run this once more"
            return f"a statement changed the table after what is published ({gtid}): {self._reach.reason}"
        last, server = self._past.last, self._reading.definition
        if last is not None and last.gap:
            return f"its definition is not known: {last.gap}"
        if server is not None and server.engine not in {None, "InnoDB"}:
            return f"its engine is {server.engine}: a SELECT of it may show rows that are in no binlog yet"
        return None

    def drift(self) -> tuple[str, ...]:
        """What the history has of the table's columns and key, and the server does not."""
        known, server = self._past.definition, self._reading.definition
        if known is None or server is None:
            return (
                () if known is server else ("- the table, which the server does not have" if known else "+ the table",)
            )
        if _shape(known) == _shape(server):
            return ()
        return tuple(str(difference) for difference in diff(known, server)) or (
            "~ order of columns, or the primary key",
        )

    def compared(self, report: TableReport, wanted: ComparisonRequest) -> TableReport:
        """Compares the rows."""
        definition, server = self._past.definition, self._reading.rows
        if definition is None or server is None:
            return replace(report, reasons=("the table was dropped",))
        shown = ShownRows(wanted.differences, hidden_of(wanted, self._reading.name))
        report = replace(report, against=Against.CHANGES if self._mirror is None else Against.MIRROR)
        reason = self._incomparable(definition, server)
        if reason is not None:
            return replace(report, reasons=(reason,))
        chosen = None if isinstance(server, PartedRows) else self._chosen(definition, server)
        with ExitStack() as files:
            columns = self._part_columns(definition) if chosen is None else ()
            sides = Sides(files, columns, defaults_of(self._past, columns), wanted.held_bytes)
            sides.take_server(server)
            sides.landed = sides.rows(self._landed(definition))
            if self._mirror is not None:
                sides.mirror = sides.rows(_chosen_rows(chosen, self._mirror.mirror.exact_batches()))
            for name in [self._past.name] if self._mirror is not None else sorted(self._past.names):
                sides.changes[name] = sides.changed(self._changes(name, chosen))
            if sides.are_held:
                return self._in_memory(report, sides, shown)
            return self._in_parts(report, definition, sides, shown)

    def _incomparable(self, definition: TableDefinition, server: pa.Table | PartedRows) -> str | None:
        if (
            not definition.primary_key
            and self._mirror is None
            and not LakeTable(_nothing, self._past, self._reach).is_complete
        ):
            return "it has no primary key, and rows may be from before the stream"
        if isinstance(server, PartedRows) and server.columns != self._part_columns(definition):
            return "its key was changed while it was read: run this once more"
        return None

    def _part_columns(self, definition: TableDefinition) -> tuple[str, ...]:
        return row_columns(definition) if self._mirror is not None else part_columns(self._past)

    def _changes(self, name: TableName, chosen: ChosenKeys | None) -> Iterator[pa.Table]:
        """Those that the rows are made of; beside a mirror, those that it, or what the server showed, may lack."""
        since = 0 if self._mirror is None else min(self._settled, self._reach.upto)
        for batch in read_batches(self._source.lake, self._source.name, name):
            late = batch if self._mirror is None else batch.filter(pc.greater(batch["_seq"], since))
            yield late if chosen is None or self._mirror is not None else chosen.changes(late)

    def _chosen(self, definition: TableDefinition, server: pa.Table) -> ChosenKeys | None:
        """The keys of a sample; of a mirror any key can be used, of changes those that never had other columns or
        types."""
        names = [column_name(name) for name in definition.primary_key]
        requested, key = self._reading.queried, list(exact_names(definition, names))
        if requested is None or (self._mirror is None and not set(key) <= set(part_columns(self._past))):
            return None
        return ChosenKeys(
            key, [server.select(key).cast(requested.schema), requested], defaults_of(self._past, tuple(key))
        )

    def _lake(self, table: LakeTable, landed: Sequence[pa.Table]) -> LakeRows:
        lake = table.rows(self._reading.seen, self._settled)
        return replace(lake, touched=pa.concat_tables([lake.touched, *landed]))

    def _in_memory(self, report: TableReport, sides: Sides, shown: ShownRows) -> TableReport:
        """Compares a table that is in memory."""
        mirrored, landed, server = (held_rows(side) for side in (sides.mirror, sides.landed, sides.server))
        rows = (
            None
            if self._mirror is None
            else pa.concat_tables([self._mirror.mirror.exact_schema.empty_table(), *mirrored])
        )
        changes = {name: by_schema(held_rows(change)) for name, change in sides.changes.items()}
        lake = self._lake(LakeTable(lambda name: changes.get(name, []), self._past, self._reach, rows), landed)
        definition = lake.state.definition
        theirs = pa.concat_tables(server).cast(exact_schema(definition))
        report = replace(report, lake_rows=lake.state.rows.num_rows, server_rows=theirs.num_rows)
        if definition.sequence and not lake.state.rows.num_rows:
            return replace(report, reasons=(NO_SEQUENCE_ROW,))
        if definition.primary_key:
            compared = compare_by_key(lake, theirs, self._reading.queried, shown)
        elif lake.touched.num_rows:
            return replace(report, reasons=(self._keyless(lake.touched.num_rows),))
        else:
            compared = compare_multisets(lake, theirs, shown)
        return self._judged(report, lake.doubled, compared, shown)

    def _in_parts(
        self, report: TableReport, definition: TableDefinition, sides: Sides, shown: ShownRows
    ) -> TableReport:
        """Compares a large one."""
        schema = exact_schema(definition)
        comparison, twice, lake_rows, touched = NOTHING, [_NO_KEYS], 0, 0
        for part, held in sides.parts():
            mirrored = None if self._mirror is None else _some(held.mirror, self._mirror.mirror.exact_schema)
            lake = self._lake(LakeTable(held.read_changes, self._past, self._reach, mirrored), held.landed)
            state = TableState(lake.state.definition, part.own(lake.state.rows))
            lake = replace(lake, state=state, touched=part.own(lake.touched))
            rows = _some(held.server, schema)
            if definition.primary_key:
                comparison = comparison.plus(compare_by_key(lake, rows, None, shown), shown)
            else:
                comparison = comparison.plus(compare_multisets(lake, rows, shown), shown)
            twice.append(part.own(lake.doubled))
            lake_rows += state.rows.num_rows
            touched += lake.touched.num_rows
        report = replace(report, lake_rows=lake_rows, server_rows=sides.server_rows)
        if touched and not definition.primary_key:
            return replace(report, reasons=(self._keyless(touched),))
        return self._judged(report, pa.concat_tables(twice[1:]) if twice[1:] else _NO_KEYS, comparison, shown)

    def _keyless(self, touched: int) -> str:
        return f"it has no primary key, and {touched:,} rows changed after what is compared; " + (
            self._reach.reason or "run this once more in a quiet moment"
        )

    def _landed(self, definition: TableDefinition) -> Iterator[pa.Table]:
        """Keys of changes that are landed and not published."""
        history = History(SchemaStore(self._engine), self._source.name)
        schema = exact_schema(definition)
        key = definition.primary_key or tuple(column.name for column in definition.columns)
        names = exact_names(definition, [column_name(name) for name in key])
        wanted = pa.schema([schema.field(name) for name in names])
        for span in self._reach.left:
            for part in touched_keys(self._stream, history, self._reading.name, key, span):
                yield part.rename_columns(list(names)).cast(wanted)

    def _judged(self, report: TableReport, twice: pa.Table, compared: ComparedTable, shown: ShownRows) -> TableReport:
        shown_twice = doubled(twice, shown)
        different = compared.different + twice.num_rows
        if different:
            outcome = ComparisonOutcome.MISMATCH
        elif compared.compared or not (report.server_rows or report.lake_rows):
            outcome = ComparisonOutcome.MATCH
        else:
            outcome = ComparisonOutcome.INCONCLUSIVE
        return replace(
            report,
            outcome=outcome,
            reasons=tuple(self._limits(compared)),
            compared=compared.compared,
            different=different,
            changed=compared.changed,
            not_covered=compared.not_covered + compared.partial,
            differences=(*shown_twice, *compared.differences)[: shown.most],
        )

    def _limits(self, compared: ComparedTable) -> list[str]:
        limits = []
        if compared.changed and self._reach.reason:
            limits.append(f"rows that changed later are excluded: {self._reach.reason}")
        if compared.not_covered:
            limits.append(
                f"{compared.not_covered:,} rows are from before the stream and unchanged since: only a dump has them"
            )
        if compared.partial:
            limits.append(f"{compared.partial:,} rows have columns that no image since the stream's beginning has")
        logged = SchemaStore(self._engine).statement_changes(self._source.name, 0, self._last)
        if any(not change.tables or self._past.names & set(change.tables) for change in logged):
            limits.append("rows were changed by a statement, and the binlog does not hold them: `strata intervals`")
        if compared.different and self._reading.name in {
            cascade.name for cascade in unlogged_cascades(self._engine, self._source.name)
        }:
            limits.append(UNLOGGED)
        return limits


def _some(rows: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(row.select(schema.names).cast(schema) for row in rows)])


def _chosen_rows(chosen: ChosenKeys | None, batches: Iterable[pa.Table]) -> Iterable[pa.Table]:
    return batches if chosen is None else map(chosen.rows, batches)


def _nothing(_: TableName) -> list[pa.Table]:
    return []


def _shape(definition: TableDefinition) -> object:
    """What rows depend on."""
    columns = [
        (fold_name(column.name), column.column_type, column.character_set, column.nullable, column.generated)
        for column in definition.columns
    ]
    return columns, [fold_name(name) for name in definition.primary_key]
