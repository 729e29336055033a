"""Mirrors of a sink's tables from an export by Dumpling: rows up to its timestamp are those of the export, later ones
come from the sink.

An export is the state of TiDB at one timestamp, and the sink has all commits in their order. So a mirror begins at the
last commit up to that timestamp, and no change lies on both sides or on none.
Not here: the export (`ticdc/export_folder.py`), its rows (`ticdc/export_rows.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.errors import SchemaGapError, StrataError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.dump.dump_table import TableDumped
from strata_cdc.mirrors.dump.dump_tables import DumpReport
from strata_cdc.mirrors.dump.exact import exact_rows
from strata_cdc.mirrors.dump.finish import create_mirror
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.window import DumpWindow, is_changed
from strata_cdc.position.commit_ts import CommitStep
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.versions import SchemaVersion, VersionOrigin
from strata_cdc.tables.convert import exact_schema
from strata_cdc.tables.verbatim import verbatim_names
from strata_cdc.ticdc.export_rows import exported_rows
from strata_cdc.ticdc.export_schema import exported_definition, refuse_other
from strata_cdc.ticdc.landed_steps import seq_of, step_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.mirrors.dump.finish import DumpSource
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.ticdc.export_folder import DumplingExport
    from strata_cdc.ticdc.values import ConvertedTexts


class ExportFacts(Struct, frozen=True):
    """What is known beside an export."""

    checkpoint_ts: int
    """All commits of the sink below it have landed."""
    feed_start: int | None = None
    """The changefeed's start-ts; None: not known."""
    time_zone: str | None = None
    """Of TIMESTAMP in the export."""


def take_export(
    source: DumpSource, export: DumplingExport, tables: Sequence[TableName], facts: ExportFacts
) -> DumpReport:
    """Makes mirrors of some tables of an export; if one fails, the others are still made.

    Args:
        source: The sink; what it has landed is tracked.
        export: The export.
        tables: Tables of the export.
        facts: What is known beside it.

    Raises:
        Usage: The sink has not all commits after the export, or not yet.
        StrataError: The only table failed.
    """
    stream = LandedStream.open(source.lake, source.name)
    taking = _Taking(source, export, facts, stream, _begin(stream, export.tso, facts))
    return DumpReport.from_outcomes(source.name, [taking.outcome(table) for table in tables])


def _begin(stream: LandedStream, tso: int, facts: ExportFacts) -> int:
    """The ordinal of the last commit that the export has.

    Raises:
        Usage: Commits after the export are not in the stream, or may not be.
    """
    where = f"the export is of timestamp {tso}"
    if tso >= facts.checkpoint_ts:
        raise Usage(
            f"{where}, and the sink has all commits below {facts.checkpoint_ts} only",
            source=stream.source,
            remedy="Wait until the changefeed's checkpoint has passed it, then run the same again.",
        )
    if facts.feed_start is not None and facts.feed_start > tso:
        raise Usage(
            f"{where}, and the changefeed has no commits up to {facts.feed_start}",
            source=stream.source,
            remedy="Export again, at a timestamp after the changefeed's start-ts.",
        )
    if not stream.segments:
        raise Usage(
            "nothing of the sink has landed: no table is known", source=stream.source, remedy="Run the same later."
        )
    if stream.first_seq > 1:
        _refuse_before(stream, tso, where)
    elif facts.feed_start is None:
        first = step_at(stream, 1)
        if tso < first.ts:
            raise Usage(
                f"{where}, before the sink's first commit at {first.ts}: nothing shows that the changefeed had begun",
                source=stream.source,
                remedy="Give the changefeed's start-ts, as in `--feed-start 449012345678901234`; or export again.",
            )
    return seq_of(stream, CommitStep(tso, is_ddl=True))


def _refuse_before(stream: LandedStream, tso: int, where: str) -> None:
    before = step_at(stream, stream.first_seq - 1)
    if tso < before.ts:
        raise Usage(
            f"{where}, and the commits up to {before.ts} were deleted from the lake by age",
            source=stream.source,
            remedy="Export again, at a later timestamp.",
        )


class _Taking(Struct, frozen=True):
    """What is the same for all tables of an export."""

    source: DumpSource
    export: DumplingExport
    facts: ExportFacts
    stream: LandedStream
    seq: int

    def outcome(self, table: TableName) -> TableDumped | StrataError:
        """The mirror of a table, or why there is none."""
        try:
            return self._mirror(table)
        except StrataError as error:
            return error.located(source=self.source.name, table=str(table))

    def _mirror(self, table: TableName) -> TableDumped:
        exported = self.export.tables[table]
        seq, version = self._version(table)
        definition = version.definition
        refuse_other(exported_definition(table, exported), definition)
        counted = _ExportBatches(definition)
        batches = counted.batches(exported_rows(table, exported, definition, self.facts.time_zone))
        folder = DumpFolder(self.source.lake, self.source.name, table)
        rows = exact_rows(batches, iter(()), definition, folder, self.source.limits)
        position = create_mirror(self.source, table, version, (self.stream, seq), rows)
        self.source.done(table)
        return TableDumped(
            table=str(table),
            rows=counted.rows,
            bytes=counted.bytes,
            chunks=len(exported.files),
            changes=0,
            readings=1,
            seq=position.seq,
            gtid_executed=position.gtid_executed,
            invalid=counted.invalid,
        )

    def _version(self, table: TableName) -> tuple[int, SchemaVersion]:
        """Where the mirror begins, and the version of the table there.

        A sink shows a table with its first row or DDL. If that is a row, the table had the same version before, so that
        the mirror begins just before it.

        Raises:
            SchemaGapError: There is no such table at the export's timestamp, or its version is not known there.
        """
        entries = self.source.store.timeline(self.source.name, [table])
        if any(entry.seq <= self.seq for entry in entries):
            return self.seq, History(self.source.store, self.source.name).after(table, self.seq)
        first = next(iter(entries), None)
        if first is None or first.origin is not VersionOrigin.BASELINE or first.fingerprint is None:
            raise _unknown(self.export.tso, first)
        seq = first.seq - 1
        if is_changed(self.stream, DumpWindow(self.seq, seq), table):
            raise _unknown(self.export.tso, first)
        return seq, History(self.source.store, self.source.name).after(table, first.seq)


def _unknown(tso: int, first: StoredEntry | None) -> SchemaGapError:
    since = "no row and no DDL of it has landed" if first is None else "the first that the sink has of it is later"
    return SchemaGapError(
        f"the columns of the table at timestamp {tso} are not known: {since}",
        remedy="Run the same once a row of it has landed; or export again, at a timestamp after its first DDL.",
    )


class _ExportBatches:
    """Blocks of an export as batches of the mirror, and how much that is."""

    def __init__(self, definition: TableDefinition) -> None:
        self.rows = self.bytes = 0
        self.invalid: dict[str, int] = {}
        self._definition, self._schema = definition, exact_schema(definition)

    def batches(self, blocks: Iterator[list[ConvertedTexts]]) -> Iterator[pa.RecordBatch]:
        beside = verbatim_names(self._definition)
        for block in blocks:
            count = len(block[0].values)
            texts = []
            for column, value in zip(self._definition.columns, block, strict=True):
                if column.name in beside:
                    texts.append(pa.nulls(count, pa.string()) if value.invalid is None else value.invalid)
                if value.invalid is not None:
                    known = self.invalid.get(column.name, 0)
                    self.invalid[column.name] = known + count - value.invalid.null_count
            batch = pa.RecordBatch.from_arrays([*(value.values for value in block), *texts], schema=self._schema)
            self.rows, self.bytes = self.rows + count, self.bytes + batch.nbytes
            yield batch
