"""Verifies change tables by themselves: the image before each change is what the changes before it left, no change is
there twice, and all that the ledger calls published is there.
Not here: comparing with the server (`reconcile_source.py`), following the images of a key (`chain.py`)."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.errors import BadData, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.quality.proof.replay import replay
from strata_cdc.quality.reconcile.chain import Chain
from strata_cdc.quality.reconcile.compare import ShownRows, doubled
from strata_cdc.quality.reconcile.lake_rows import LakeTable
from strata_cdc.quality.reconcile.part_columns import defaults_of, part_columns
from strata_cdc.quality.reconcile.past import SourcePast
from strata_cdc.quality.reconcile.published import reach_of
from strata_cdc.quality.reconcile.reading import hidden_of
from strata_cdc.quality.reconcile.report import Against, ComparisonOutcome, SourceReport, TableReport, failed
from strata_cdc.quality.reconcile.sides import Sides, by_schema, held_rows
from strata_cdc.quality.reconcile.tables import tables_of
from strata_cdc.store.ledgers import IntervalLedger, PublishedLedger
from strata_cdc.store.owned import owners
from strata_cdc.tables.layout import INTERVAL
from strata_cdc.tables.read import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.quality.reconcile.lake_rows import Read
    from strata_cdc.quality.reconcile.parts import RowPartition
    from strata_cdc.quality.reconcile.past import TablePast
    from strata_cdc.quality.reconcile.published import PublishedReach
    from strata_cdc.quality.reconcile.reading import ComparisonRequest
    from strata_cdc.quality.reconcile.report import RowDifference
    from strata_cdc.schema.model.definition import TableName


def verify_changes(
    source: Source,
    engine: sa.Engine,
    wanted: ComparisonRequest,
    *,
    watch: Callable[[TableReport], None] = lambda _: None,
) -> SourceReport:
    """Verifies tables one after the other, without asking their server.

    Args:
        wanted: Which tables, and what may be shown.
        watch: Called with each table as soon as it is compared.

    Raises:
        Usage: A pattern matches no table, or nothing has landed.
        StoreUnavailableError: The database does not answer.
        LakeUnavailableError: The storage does not answer.
    """
    past = SourcePast.from_store(engine, source.name)
    stream = LandedStream.open(source.lake, source.name)
    reports = []
    for name in tables_of(source, engine, past, wanted):
        began = time.monotonic()
        try:
            verified = _verified(source, engine, past.table(name), stream, wanted)
        except (BadData, Usage) as error:
            verified = failed(str(name), error, Against.ITSELF)
        report = replace(verified, seconds=round(time.monotonic() - began, 3))
        watch(report)
        reports.append(report)
    return SourceReport(source.name, tuple(reports))


def _verified(
    source: Source, engine: sa.Engine, past: TablePast, stream: LandedStream, wanted: ComparisonRequest
) -> TableReport:
    reach = reach_of(engine, stream, past.names, stream.last_seq)
    shown = ShownRows(wanted.differences, hidden_of(wanted, past.name))
    columns = part_columns(past)
    verified, counts = _PartsOfTable(past, reach, shown), {name: Counter[int]() for name in sorted(past.names)}
    with ExitStack() as files:
        sides = Sides(files, columns, defaults_of(past, columns), wanted.held_bytes)
        for name, count in counts.items():
            sides.changes[name] = sides.changed(_counted(read_batches(source.lake, source.name, name), count))
        if sides.are_held:
            changes = {name: by_schema(held_rows(change)) for name, change in sides.changes.items()}
            verified.look(lambda name: changes.get(name, []))
        else:
            for part, held in sides.parts():
                verified.look(held.read_changes, part, partial(part.count_left, defaults=sides.defaults))
    missing = [message for name, count in counts.items() for message in _missing(engine, source.name, name, count)]
    different = verified.different + len(missing)
    outcome = ComparisonOutcome.MATCH if verified.looked else ComparisonOutcome.INCONCLUSIVE
    limits = [reach.reason] if reach.reason else []
    return TableReport(
        str(past.name),
        ComparisonOutcome.MISMATCH if different else outcome,
        against=Against.ITSELF,
        reasons=(*missing, *limits) or (() if verified.looked else ("nothing of it is published",)),
        lake_rows=verified.looked,
        compared=verified.looked,
        different=different,
        differences=(*verified.again, *verified.differences)[: shown.most],
    )


class _PartsOfTable:
    """What is found of one table, a part after the other."""

    def __init__(self, past: TablePast, reach: PublishedReach, shown: ShownRows) -> None:
        self._past, self._reach, self._shown = past, reach, shown
        self._until = past.until(reach.upto)
        self.looked = 0
        self.different = 0
        self.again: list[RowDifference] = []
        self.differences: list[RowDifference] = []

    def look(self, read: Read, part: RowPartition | None = None, count: Callable[[pa.Table], int] = len) -> None:
        """Looks at some changes, of a part at those that are of it."""
        table = LakeTable(read, self._past, self._reach)
        chain = Chain(self._until.complete_since(), self._shown, part, count)
        replay(self._until.table_changes, table.changes, self._until.removals, self._past.name.__eq__, chain.apply)
        definition = self._until.definition
        if definition is not None:
            twice = table.doubled(definition)
            twice = twice if part is None else part.own(twice)
            self.different += twice.num_rows
            self.again += doubled(twice, self._shown)
        self.looked += chain.looked
        self.different += chain.broken
        self.differences += chain.differences


def _counted(batches: Iterable[pa.Table], count: Counter[int]) -> Iterator[pa.Table]:
    """The changes, and how many there are of each interval."""
    for batch in batches:
        for entry in pc.value_counts(batch[INTERVAL].cast("int64")).to_pylist():
            count[entry["values"]] += entry["counts"]
        yield batch


def _by_owner(counts: Mapping[int, int], owner: Callable[[int], int]) -> Counter[int]:
    by_owner = Counter[int]()
    for start, count in counts.items():
        by_owner[owner(start)] += count
    return by_owner


def _missing(engine: sa.Engine, source: str, name: TableName, change_counts: Mapping[int, int]) -> Iterator[str]:
    """Intervals that have not as many rows as were published of them."""
    ledger = PublishedLedger(engine).of_table(source, name.database, name.table)
    # Last: intervals may have become one since their rows were counted.
    owner = owners(IntervalLedger(engine).all(source))
    published = _by_owner({note.interval_start: note.rows for note in ledger}, owner)
    counted = _by_owner(change_counts, owner)
    for start in sorted(published.keys() | counted.keys()):
        has, had = counted[start], published[start]
        if has != had:
            yield f"{name} has {has:,} changes in the interval from {start}, and {had:,} were published of it"
