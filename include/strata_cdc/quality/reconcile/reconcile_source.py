"""Compares the tables of a source with its server, each at a set of transactions that both have.

The server is read first, in short consistent SELECTs. `seen` is what it had executed before the first of them: all of
that they show, and so is what has no GTID before `begin`, since a server that numbers everything has committed
it. The binlog's end after the last of them is the bound of what they can show besides. Then what has landed is brought
up to that bound, and each key that a change between the two has touched is excluded: all other rows are the same at
both ends, so that they are compared as of one position.
Not here: the two sides (`server_rows.py`, `lake_rows.py`), holding one against the other (`compare.py`).
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.changes.select.keys import select_key
from strata_cdc.clock import now_micros
from strata_cdc.errors import BadData, Permanent, UndecodableTextError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.layout import mirror_url
from strata_cdc.mirrors.table import Mirror
from strata_cdc.quality.reconcile.judge import judge
from strata_cdc.quality.reconcile.mirrored import mirror_of
from strata_cdc.quality.reconcile.part_columns import part_columns, row_columns
from strata_cdc.quality.reconcile.parts import PartedRows, gathered
from strata_cdc.quality.reconcile.past import SourcePast
from strata_cdc.quality.reconcile.reading import ServerReading
from strata_cdc.quality.reconcile.report import Against, ComparisonOutcome, SourceReport, TableReport, failed
from strata_cdc.quality.reconcile.server_rows import ServerRows, TableChangedError
from strata_cdc.quality.reconcile.tables import tables_of
from strata_cdc.store.comparisons import ComparisonLedger, TableComparison
from strata_cdc.tables.convert import exact_schema
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.read import read_changes
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import column_of_verbatim, exact_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.errors import StrataError
    from strata_cdc.position.binlog_position import ServerPosition
    from strata_cdc.quality.reconcile.literals import Key
    from strata_cdc.quality.reconcile.reading import ComparisonRequest
    from strata_cdc.schema.model.definition import TableDefinition, TableName


# Which rows of a large table are compared when not all are: rows from some keys on, and rows of some keys. Ranges of
# the server's rows show what the lake lacks and what differs; keys of the lake show what the server lacks.
_RANGES = 16


class Sample(Struct, frozen=True):
    """What is read of a table; nothing given: all of it."""

    keys: pa.Table | None = None
    """Keys of the lake that the server is queried for."""
    starts: tuple[Key | None, ...] = ()
    """Where ranges begin; None for the table's beginning."""
    rows: int = 0
    """Of each range."""

    @property
    def key_values(self) -> list[Key]:
        """The keys as Python has them."""
        names = (
            [] if self.keys is None else [name for name in self.keys.schema.names if column_of_verbatim(name) is None]
        )
        return [] if self.keys is None else _as_keys(self.keys.select(names))


def draw(lake: str, source: str, name: TableName, definition: TableDefinition, size: int) -> Sample:
    """Half of the rows by ranges that begin at keys drawn from the lake, half by keys drawn from it.

    Without a primary key all rows are read, since nothing else shows which are missing; so they are where it has a
    prefix of a column, by which the server finds no row."""
    names = [column_name(name) for name in definition.primary_key]
    key = select_key(definition)
    if key is None or key.columns != definition.primary_key:
        return Sample()
    columns = [definition.column(name) for name in definition.primary_key]
    fields = [pa.field(of, arrow_type(column)) for of, column in zip(names, columns, strict=True) if column is not None]
    mirror = Mirror.open(lake, source, name)
    try:
        rows = read_changes(lake, source, name, columns=names) if mirror is None else mirror.to_arrow(names)
    except Usage:
        # Nothing is published, or the key has had types without a common one.
        rows = pa.schema(fields).empty_table()
    # Ranges contain days that no calendar has; keys that are queried are values of columns.
    keys = rows.select(names).drop_null().cast(pa.schema(fields))
    _, first = np.unique(row_codes(keys), return_index=True)
    drawn = np.random.default_rng().permutation(first)[: max(size // 2, _RANGES)]
    starts = keys.take(pa.array(drawn[: _RANGES - 1]))
    requested = keys.take(pa.array(drawn[: max(size // 2, 1)]))
    for text in exact_names(definition, names)[len(names) :]:
        requested = requested.append_column(text, pa.nulls(requested.num_rows, pa.string()))
    return Sample(
        keys=requested,
        starts=(None, *_as_keys(starts)),
        rows=max(size // 2 // _RANGES, 1),
    )


def _as_keys(keys: pa.Table) -> list[Key]:
    return list(zip(*(column.to_pylist() for column in keys.columns), strict=True))


_LOG = logging.getLogger("strata.reconcile")


def reconcile_source(
    source: Source,
    engine: sa.Engine,
    wanted: ComparisonRequest,
    *,
    catch_up: Callable[[ServerPosition], None],
    watch: Callable[[TableReport], None] = lambda _: None,
) -> SourceReport:
    """Compares the tables one after the other.

    Args:
        wanted: What to compare.
        catch_up: Lands and tracks what the server has written up to a position.
        watch: Called with each table as soon as it is compared.

    Raises:
        Usage: A pattern matches no table, or nothing has landed.
        SourceUnavailableError: The server does not answer, or went away.
        AccessDeniedError: A grant is missing.
        StoreUnavailableError: The database does not answer.
        LakeUnavailableError: The storage does not answer.
    """
    return SourceReport(source.name, tuple(_Comparison(source, engine, wanted, catch_up, watch).tables()))


class _Comparison:
    """Does one comparison."""

    def __init__(
        self,
        source: Source,
        engine: sa.Engine,
        wanted: ComparisonRequest,
        catch_up: Callable[[ServerPosition], None],
        watch: Callable[[TableReport], None],
    ) -> None:
        self._source, self._engine, self._wanted = source, engine, wanted
        self._catch_up, self._watch = catch_up, watch
        self._held: list[ServerReading] = []

    def tables(self) -> Iterator[TableReport]:
        """Reads tables until many rows wait, then judges these; and so on."""
        past = SourcePast.from_store(self._engine, self._source.name)
        names = tables_of(self._source, self._engine, past, self._wanted)
        _LOG.info("%s: %d tables to compare", self._source.name, len(names))
        server = ServerRows(self._source.address, self._wanted.pace)
        try:
            if not server.numbers_all():
                yield from (self._announced(name, _unnumbered(name)) for name in names)
                return
            for name in names:
                yield from self._take(server, past, name)
            yield from self._judge()
        finally:
            server.close()

    def _take(self, server: ServerRows, past: SourcePast, name: TableName) -> Iterator[TableReport]:
        try:
            reading = self._read(server, past, name)
        except TableChangedError as changed:
            server.begin_anew()
            reasons = (f"while it was read: {changed}",)
            yield self._announced(name, TableReport(str(name), ComparisonOutcome.INCONCLUSIVE, reasons=reasons))
            return
        except (BadData, Permanent) as error:
            server.begin_anew()
            if isinstance(error, UndecodableTextError) and self._wanted.sensitive(name):
                # Its message quotes the value.
                error = UndecodableTextError("a value is not text in its column's charset", table=str(name))
            yield self._announced(name, failed(str(name), error))
            return
        self._held.append(reading)
        held = sum(reading.rows.nbytes for reading in self._held if isinstance(reading.rows, pa.Table))
        if held >= self._wanted.held_bytes or isinstance(reading.rows, PartedRows):
            yield from self._judge()

    def _read(self, server: ServerRows, past: SourcePast, name: TableName) -> ServerReading:
        began = time.monotonic()
        begin = server.end()
        seen = server.executed()
        definition = server.definition(name)
        rows: pa.Table | PartedRows | None = None
        sample = Sample()
        if definition is not None:
            sample = self._sample(past, name, definition)
            columns = self._part_columns(past, name, definition) if sample.keys is None else ()
            rows = _held(_select(server, name, definition, sample), definition, columns, self._wanted.held_bytes)
        return ServerReading(name, definition, rows, sample.keys, begin, seen, server.end(), time.monotonic() - began)

    def _part_columns(self, past: SourcePast, name: TableName, definition: TableDefinition) -> tuple[str, ...]:
        """By which the table can be compared in parts; none if it cannot be."""
        has_mirror = mirror_of(self._source, name, 0) is not None
        columns = row_columns(definition) if has_mirror else part_columns(past.table(name))
        return columns if set(columns) <= set(exact_schema(definition).names) else ()

    def _sample(self, past: SourcePast, name: TableName, definition: TableDefinition) -> Sample:
        known = past.table(name).definition
        if self._wanted.keys is None or known is None or known.primary_key != definition.primary_key:
            return Sample()
        return draw(self._source.lake, self._source.name, name, known, self._wanted.keys)

    def _judge(self) -> Iterator[TableReport]:
        """Compares what has been read with the lake, which is first brought to where the last reading ended."""
        held, self._held = self._held, []
        if not held:
            return
        self._catch_up(held[-1].end)
        past = SourcePast.from_store(self._engine, self._source.name)
        stream = LandedStream.open(self._source.lake, self._source.name)
        for reading in held:
            began = time.monotonic()
            try:
                report = judge(self._source, self._engine, past, stream, reading, self._wanted)
            except (BadData, Usage) as error:
                report = failed(str(reading.name), error, self._against(reading.name, error))
            finally:
                if isinstance(reading.rows, PartedRows):
                    reading.rows.close()
            seconds = round(reading.seconds + time.monotonic() - began, 3)
            yield self._announced(reading.name, replace(report, seconds=seconds))

    def _against(self, name: TableName, error: StrataError) -> Against:
        """What an error is about."""
        is_mirror = (error.facts().file or "").startswith(mirror_url(self._source.lake, self._source.name, name))
        return Against.MIRROR if is_mirror else Against.CHANGES

    def _announced(self, name: TableName, report: TableReport) -> TableReport:
        ComparisonLedger(self._engine).put(
            TableComparison(
                self._source.name,
                name.database,
                name.table,
                compared_at=now_micros(),
                outcome=report.outcome.value,
                compared=report.compared,
                different=report.different,
                is_sample=self._wanted.keys is not None,
            )
        )
        for line in report.lines():
            _LOG.info("%s", line)
        self._watch(report)
        return report


def _select(server: ServerRows, name: TableName, definition: TableDefinition, sample: Sample) -> Iterator[pa.Table]:
    if sample.keys is None:
        yield from server.whole(name, definition)
        return
    yield from server.ranges(name, definition, sample.starts, sample.rows)
    yield from server.of_keys(name, definition, sample.key_values)


def _held(
    batches: Iterator[pa.Table], definition: TableDefinition, columns: tuple[str, ...], most_bytes: int
) -> pa.Table | PartedRows:
    """The rows of a table; if they are more than so many bytes, in parts."""
    rows = gathered(batches, most_bytes, partial(PartedRows, columns) if columns else None)
    if isinstance(rows, PartedRows):
        return rows
    return pa.concat_tables([exact_schema(definition).empty_table(), *rows])


def _unnumbered(name: TableName) -> TableReport:
    return TableReport(
        str(name),
        ComparisonOutcome.INCONCLUSIVE,
        reasons=(
            "the server does not number its transactions (gtid_mode): no set of them says what a SELECT has seen",
        ),
    )
