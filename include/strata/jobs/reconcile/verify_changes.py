"""Verifies change tables by themselves: each change finds what the changes before it left, none is there twice, and
all that the ledger says was published is there.
Not here: comparing with the server (`reconcile_source.py`), following the images of a key (`chain.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow.compute as pc  # noqa: TID253  only those who verify import this module
from msgspec.structs import replace

from strata.errors import BadData, Usage
from strata.events.landed import LandedStream
from strata.jobs.prove.replay import replay
from strata.jobs.reconcile.chain import Chain
from strata.jobs.reconcile.compare import Shown, doubled
from strata.jobs.reconcile.lake_rows import LakeTable
from strata.jobs.reconcile.past import SourcePast
from strata.jobs.reconcile.published import reach_of
from strata.jobs.reconcile.reading import hidden_of
from strata.jobs.reconcile.report import Against, Outcome, SourceReport, TableReport, failed
from strata.jobs.reconcile.tables import tables_of
from strata.store.ledgers import PublishedLedger
from strata.tables.layout import INTERVAL
from strata.tables.read import read_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    import sqlalchemy as sa

    from strata.config.settings import Source
    from strata.jobs.reconcile.lake_rows import Read
    from strata.jobs.reconcile.past import TablePast
    from strata.jobs.reconcile.reading import Wanted
    from strata.schema.model.definition import TableName


def verify_changes(
    source: Source, engine: sa.Engine, wanted: Wanted, *, watch: Callable[[TableReport], None] = lambda _: None
) -> SourceReport:
    """Verifies tables one after the other, without asking their server.

    Args:
        source: The source.
        engine: Its store.
        wanted: Which tables, and what may be shown.
        watch: Is told of each table as soon as it is done.

    Raises:
        Usage: A pattern matches no table, or nothing has landed.
        StoreUnavailableError: The database does not answer.
        LakeUnavailableError: The storage does not answer.
    """
    past = SourcePast.of(engine, source.name)
    stream = LandedStream.open(source.lake, source.name)
    reports = []
    for name in tables_of(source, engine, past, wanted):
        began = time.monotonic()
        try:
            found = _verified(source, engine, past.table(name), stream, wanted)
        except (BadData, Usage) as error:
            found = failed(str(name), error)
        report = replace(found, seconds=round(time.monotonic() - began, 3))
        watch(report)
        reports.append(report)
    return SourceReport(source.name, tuple(reports))


def _verified(source: Source, engine: sa.Engine, past: TablePast, stream: LandedStream, wanted: Wanted) -> TableReport:
    reach = reach_of(engine, stream, past.names, stream.last_seq)
    until = past.until(reach.upto)

    def read(name: TableName) -> list[pa.Table]:
        return read_columns(source.lake, source.name, name)

    table = LakeTable(read, past, reach)
    shown = Shown(wanted.differences, hidden_of(wanted, past.name))
    chain = Chain(until.complete_since(), shown)
    replay(until.turns, table.changes, until.removals, past.name.__eq__, chain.apply)
    missing = list(_missing(engine, source.name, past, read))
    definition = until.definition
    twice = None if definition is None else table.doubled(definition)
    again = () if twice is None else doubled(twice, shown)
    different = chain.broken + len(missing) + (0 if twice is None else twice.num_rows)
    outcome = Outcome.MATCH if chain.looked else Outcome.INCONCLUSIVE
    limits = [reach.reason] if reach.reason else []
    return TableReport(
        str(past.name),
        Outcome.MISMATCH if different else outcome,
        against=Against.ITSELF,
        reasons=(*missing, *limits) or (() if chain.looked else ("nothing of it is published",)),
        lake_rows=chain.looked,
        compared=chain.looked,
        different=different,
        differences=(*again, *chain.differences)[: shown.most],
    )


def _missing(engine: sa.Engine, source: str, past: TablePast, read: Read) -> Iterator[str]:
    """Intervals that have not as many rows as were published of them."""
    for name in sorted(past.names):
        published = {one.interval_start: one.rows for one in PublishedLedger(engine).list(source, str(name))}
        found: dict[int, int] = {}
        for part in read(name):
            for entry in pc.value_counts(part[INTERVAL].cast("int64")).to_pylist():
                found[entry["values"]] = found.get(entry["values"], 0) + entry["counts"]
        for start in sorted(published.keys() | found.keys()):
            has, had = found.get(start, 0), published.get(start, 0)
            if has != had:
                yield f"{name} has {has:,} changes in the interval from {start}, and {had:,} were published of it"
