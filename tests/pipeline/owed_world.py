"""A source with a clock of its own, whose runs may be partial, fail, meet each other, and die before any write.
Not here: what must hold of it (`test_what_is_owed.py`)."""

from __future__ import annotations

import copy
import os
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from deltalake import DeltaTable
from deltalake.table import TableAlterer

from strata_cdc.config.settings import load_settings
from strata_cdc.errors import StrataError
from strata_cdc.files import storage
from strata_cdc.files.storage import list_folders
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.housekeep import clean_runs
from strata_cdc.pipeline.housekeep.merge_intervals import IntervalMergeLimits, MergeStep, merge_steps
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.runs.run_folder import read_decoded, read_plan, run_folder, write_verdicts
from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity, TableVerdict, staged_digest
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import IntervalLedger, PublishedLedger
from strata_cdc.store.owned import owners
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.store.tables import file_merge, published_interval, quarantine_decision, table_interval, verdict
from strata_cdc.tables.delta import log
from strata_cdc.tables.quarantine import put_in_quarantine
from strata_cdc.tables.read import read_changes
from strata_cdc.tracking.track_schema import track_landed
from tests.binlog.binlogs import SERVER, Binlog
from tests.interposed import interposed
from tests.published import published_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.pipeline.housekeep.clean_runs import ExpiredRuns
    from strata_cdc.pipeline.plan.pending import RunRequest
    from strata_cdc.runs.specs import PlanReport

BEGIN = 1_789_999_800_000_000
MINUTE = 60_000_000
TABLES = ("a", "b", "c")
CREATE = "CREATE TABLE {} (id INT)"
EAGER = IntervalMergeLimits(most=1, age_seconds=0)
"""Merges what can be merged."""


class Died(BaseException):
    """The process is gone before one of its writes."""


@dataclass
class World:
    """One source and its lake; `now` is everybody's clock, in microseconds."""

    folder: Path
    now: int = BEGIN
    gno: int = 0
    pending: list[tuple[str, list[int]]] = field(default_factory=list)
    committed: dict[str, Counter[tuple[str, int, int]]] = field(
        default_factory=lambda: {table: Counter() for table in TABLES}
    )
    wanted: tuple[str, ...] = ("d.*",)
    sensitive: tuple[str, ...] = ()
    run_mb: int = 4096
    merge_minutes: int = 60
    failing: frozenset[str] = frozenset()
    """Tables whose checks fail for now."""
    slice_mb: int = 64
    padding: int = 0
    """Bytes of each rows event that are no rows."""
    lake: str = "lake"
    name: str = "s"
    """Of the source."""
    store: str | None = None
    """URL of a store that others have, too."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.binlog: Binlog | None = None
        self.files = 0
        self.loaded: tuple[str, Any] | None = None
        for text in ("CREATE DATABASE d", *map(CREATE.format, TABLES)):
            self._begin_file()
            self.gno += 1
            self.binlog.gtid(self.gno, micros=self.now)
            self.binlog.query(text, database="d")

    def copied(self, folder: Path) -> World:
        """The same as it is now, in a folder of its own; its lake and its store have to be in this one's folder."""
        shutil.copytree(self.folder, folder)
        twin = copy.copy(self)
        twin.folder, twin.loaded = folder, None
        twin.binlog, twin.pending, twin.committed = copy.deepcopy((self.binlog, self.pending, self.committed))
        return twin

    # The server ------------------------------------------------------------------------------------

    def _begin_file(self) -> None:
        if self.binlog is None:
            self.files += 1
            self.binlog = Binlog()
            self.binlog.previous(f"{SERVER}:1-{self.gno}" if self.gno else "")

    def change(self, table: str, values: list[int]) -> None:
        """One transaction that inserts some rows, now."""
        self._begin_file()
        self.gno += 1
        self.binlog.gtid(self.gno, micros=self.now)
        self.binlog.query("BEGIN")
        number = TABLES.index(table) + 1
        self.binlog.table_map(number, table=table)
        self.binlog.write(values, number, padding=self.padding)
        self.binlog.xid()
        self.committed[table].update((f"{SERVER}:{self.gno}", row, value) for row, value in enumerate(values))

    # Steps -----------------------------------------------------------------------------------------

    @property
    def settings(self) -> Any:
        text = f'lake = "{self.lake}"\nstore = "{self.store or f"sqlite:///{self.folder}/s.db"}"\n'
        text += f'[sources.{self.name}]\nconnection = "x"\n'
        text += f"sensitive = {list(self.sensitive)}\n".replace("'", '"')
        text += f"tables = {list(self.wanted)}\nrun_mb = {self.run_mb}\n".replace("'", '"')
        text += f"slice_mb = {self.slice_mb}\nmerge_minutes = {self.merge_minutes}\nkeep_merged_hours = 1\n"
        if self.loaded is None or self.loaded[0] != text:
            path = self.folder / "strata.toml"
            path.write_text(text)
            loaded = load_settings({"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_X": "mysql://u@127.0.0.1/"})
            self.loaded = text, loaded
        return self.loaded[1]

    @property
    def source(self) -> Any:
        return self.settings.source(self.name)

    @property
    def engine(self) -> sa.Engine:
        return open_store(self.source.store_url)

    def land(self) -> None:
        """Lands and tracks what the server has."""
        self.land_only()
        track_landed(self.source.lake, self.name, self.engine)

    def land_only(self) -> None:
        """Lands what the server has."""
        if self.binlog is not None:
            self.binlog.event(4, (4).to_bytes(8, "little") + f"binlog.{self.files + 1:06}".encode())
            archive = self.folder / "archive"
            archive.mkdir(exist_ok=True)
            (archive / f"binlog.{self.files:06}").write_bytes(bytes(self.binlog.data))
            self.binlog = None
        land_files(str(self.folder / "archive"), lake=self.source.lake, source=self.name)

    def plan(self, request: RunRequest) -> PlanReport:
        return plan_run(self.source, self.engine, LandedStream.open(self.source.lake, self.name), request, now=self.now)

    def decode(self, report: PlanReport) -> None:
        files = [file for task in planned_tasks(report.run_url) for file in decode_slice_to_files(task)]
        store_decoded(report.run_url, files)

    def check(self, report: PlanReport) -> None:
        """Stands for the check, with the tables in `failing` as its findings."""
        folder = run_folder(self.source.lake, self.name, report.run)
        plan, decoded = read_plan(folder), read_decoded(folder)
        verdicts = []
        for interval in plan.intervals:
            files = decoded.publishable(interval.start)
            tables = [
                TableVerdict(
                    table=one.name,
                    rows=one.rows,
                    versions=(1,),
                    checks=1,
                    failures=(Failure(one.name, "x", None, Severity.ERROR, "does not hold"),)
                    if one.table in self.failing
                    else (),
                )
                for one in plan.of_interval(interval)
            ]
            digest = staged_digest((str(file.name), file.digest) for file in files)
            verdicts.append(IntervalVerdict(self.name, interval.start, digest, tuple(tables)))
            failed = [file for file in files if file.table in self.failing]
            if failed:
                put_in_quarantine(self.source.lake, self.name, report.run, interval.start, failed, verdicts[-1])
        write_verdicts(folder, verdicts)

    def publish(self, report: PlanReport) -> None:
        ingest.publish(self.name, report.run, settings=self.settings)

    def housekeep(self) -> ExpiredRuns:
        """Housekeeping by the clock of eight days later, when all that is settled goes."""
        due = clean_runs.find_due(self.source, self.engine, now=ingest.now_micros() + 8 * 86_400_000_000)
        clean_runs.delete_due(self.source, due)
        return due

    def merge(self, limits: IntervalMergeLimits = EAGER) -> list[MergeStep]:
        """The upkeep of change tables, by the clock of the world."""
        return list(self.merging(limits))

    def merging(self, limits: IntervalMergeLimits = EAGER) -> Iterator[MergeStep]:
        """The same, step by step."""
        return merge_steps(self.source, self.engine, limits=limits, now=lambda: self.now)

    def runs(self) -> set[str]:
        return set(list_folders(f"{self.source.lake}/runs/{self.name}"))

    def steps(self, request: RunRequest) -> Iterator[None]:
        """A run, step by step; as in Airflow, one without slices is published at once."""
        self.land()
        yield
        report = self.plan(request)
        yield
        if report.slices:
            self.decode(report)
            yield
            self.check(report)
            yield
        self.publish(report)
        yield
        self.housekeep()

    def run(self, request: RunRequest) -> None:
        """A whole run; what it cannot do is an error that is said, and no more."""
        try:
            for _ in self.steps(request):
                pass
        except StrataError:
            pass

    # What must hold --------------------------------------------------------------------------------

    def published(self, table: str) -> Counter[tuple[str, int, int]]:
        """Transaction, ordinal and value of every row that readers see."""
        name = TableName("d", table)
        if name not in published_tables(self.source.lake, self.name):
            return Counter()
        found = read_changes(self.source.lake, self.name, name).select(["_gtid", "_row", "id"])
        return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def open_entries(self) -> list[TableInterval]:
        engine = self.engine
        wanted = wanted_tables(self.source, engine, LandedStream.open(self.source.lake, self.name))
        return [
            entry
            for entry in TableIntervalLedger(engine).select(
                self.name, (IntervalState.PENDING, IntervalState.FAILED, IntervalState.BLOCKED)
            )
            if wanted(TableName(entry.database, entry.table))
        ]

    def assert_nothing_is_lost(self) -> None:
        """Every change of every wanted table is published exactly once, or listed with the reason."""
        engine = self.engine
        wanted = wanted_tables(self.source, engine, LandedStream.open(self.source.lake, self.name))
        entries = self.open_entries()
        assert not [entry for entry in entries if entry.state is IntervalState.PENDING], (
            "a run without faults leaves nothing owed"
        )
        discarded = TableIntervalLedger(engine).select(self.name, (IntervalState.DISCARDED,))
        for table in TABLES:
            if not wanted(TableName("d", table)):
                continue
            listed = [entry for entry in (*entries, *discarded) if entry.table == table]
            assert all(entry.reason for entry in listed)
            explained = {entry.run for entry in listed if entry.run is not None and entry not in discarded}
            assert explained <= self.runs(), "verdict and Data Docs of what failed are kept"
            seen, there = self.published(table), self.committed[table]
            assert not seen - there, "twice, or never committed"
            missing = sum((there - seen).values())
            assert missing == sum(entry.rows - entry.published_rows for entry in listed), table

    def assert_intervals_are_whole(self) -> None:
        """Intervals follow each other, nothing is stored of others, and each has the rows that were noted of it."""
        engine = self.engine
        marks = IntervalLedger(engine).all(self.name)
        for one, following in pairwise(marks):
            assert one.end <= following.start
            assert one.last_seq <= following.after_seq
        owner = owners(marks)
        starts = {interval.start for interval in marks}
        with engine.connect() as connection:
            for stored in (table_interval, published_interval, verdict, file_merge, quarantine_decision):
                assert set(connection.execute(sa.select(stored.c.start_at)).scalars()) <= starts, stored.name
        notes = PublishedLedger(engine).list(self.name)
        noted = {(note.table, note.interval_start): note.rows for note in notes if note.rows}
        found: Counter[tuple[str, int]] = Counter()
        for name in published_tables(self.source.lake, self.name):
            for start in read_changes(self.source.lake, self.name, name)["_interval"].cast("int64").to_pylist():
                found[str(name), owner(start)] += 1
        assert found == noted


@contextmanager
def dying_before_write(last: int) -> Iterator[Callable[[], int]]:
    """Within the block, the process dies before its write with this number (from 1); gives how many there were."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if done == last:
            raise Died

    def counted(write: Callable[..., Any], *given: Any, **named: Any) -> Any:
        count()
        return write(*given, **named)

    places = (
        (os, "fsync"),
        (Path, "replace"),
        (log, "create_table_with_add_actions"),
        (DeltaTable, "create_write_transaction"),
        (TableAlterer, "add_columns"),
        (clean_runs, "delete_folder"),
        (storage, "_delete"),
    )

    def before_commit(_connection: sa.Connection) -> None:
        count()

    with interposed(counted, *places):
        sa.event.listen(sa.Engine, "commit", before_commit)
        try:
            yield lambda: done
        finally:
            sa.event.remove(sa.Engine, "commit", before_commit)
