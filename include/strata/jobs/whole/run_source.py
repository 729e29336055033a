"""All that `ingest_binlog` does of a source, by one call: land, track, and run after run until nothing is owed.
Not here: the steps (`jobs/ingest.py`), how Spark is started and what is shown (the command line)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from strata.counted import counted
from strata.jobs import ingest
from strata.jobs.lake.lost_tables import lost_tables, raise_if_lost
from strata.jobs.mirror.update_mirrors import raise_first
from strata.jobs.plan.owed import Take
from strata.jobs.plan.refuse_early import refuse_before_stream, refuse_misspelt
from strata.jobs.whole.keep_mirrors import compact_due
from strata.jobs.whole.lines import (
    checked_said,
    decoded_said,
    landed_said,
    mirrored_said,
    planned_said,
    published_said,
    read_again_said,
    tracked_said,
)
from strata.jobs.whole.read_again import read_again, tables_to_read_again
from strata.store.database import open_store

if TYPE_CHECKING:
    from strata.checks.verdict import IntervalVerdict
    from strata.config.settings import Settings
    from strata.errors import ErrorFacts
    from strata.jobs.dump.dump_tables import DumpReport, DumpSums
    from strata.jobs.ingest import LandStepReport
    from strata.jobs.land.land_state import LandProgress
    from strata.jobs.mirror.update_mirrors import MirrorReport, MirrorSums
    from strata.jobs.publish.publish_interval import PublishReport
    from strata.jobs.run.specs import DecodeReport, Left, PlanReport
    from strata.jobs.track.snapshot_schemas import SnapshotReport
    from strata.schema.tracker.stream import TrackReport

STEPS = ("snapshot", "land", "track", "plan", "decode", "check", "publish", "mirror", "read again")
"""In their order; from `plan` to `publish` they are repeated, since one run takes so much at most (`run_mb`)."""


class Wanted(Struct, frozen=True):
    """What is to be done of a source; nothing given: all that is owed."""

    source: str
    until: int | None = None
    """Only what was committed before this time, microseconds UTC."""
    tables: tuple[str, ...] = ()
    """Patterns of `database.table`, on top of the settings'."""
    gtid_set: str | None = None
    """Instead: from the first to the last of these transactions, whatever became of them before."""
    failed: bool = False
    """Also what failed or is held."""
    since: int | None = None
    """Instead: all from this time on (microseconds UTC, `until` is its end), whatever became of it before."""
    again: bool = False
    """Whatever became of it before, without `since` too."""

    @property
    def take(self) -> Take | None:
        """What a plan takes: what is owed, or by default all of what was asked for."""
        return Take.OWED if self.gtid_set is None and self.since is None and not self.again else None


class OnSpark(Protocol):
    """The two steps that Spark does."""

    def decode(self, run: str) -> DecodeReport:
        """Decodes a planned run."""
        ...

    def check(self, run: str) -> list[IntervalVerdict]:
        """Judges a decoded run."""
        ...


class Watcher(Protocol):
    """Who is told how far it has come."""

    def begin(self, step: str) -> None:
        """A step begins."""
        ...

    def landed(self, progress: LandProgress) -> None:
        """The landing has come so far."""
        ...

    def end(self, step: str, said: str) -> None:
        """A step is done."""
        ...


class OneRun(Struct, frozen=True):
    """What one plan became."""

    planned: PlanReport
    decoded: DecodeReport | None
    """The Spark job's report; None where there was nothing to decode."""
    checks: int
    failed_checks: int
    published: PublishReport


class WholeReport(Struct, frozen=True):
    """What was done of a source."""

    source: str
    snapshot: SnapshotReport | None
    """Of the schemas; None if there was no need."""
    landed: LandStepReport
    tracked: TrackReport
    runs: tuple[OneRun, ...]
    left: Left
    """What is owed, failed or held in front of the end, and landed transactions that no interval owns."""
    mirrors: MirrorSums | None = None
    """The mirrors at the end; None where the settings name none."""
    read_again: DumpSums | None = None
    """The dumps that the run has begun by itself; None if it had to begin none."""
    lost: tuple[ErrorFacts, ...] = ()
    """What is wrong with tables of which somebody has deleted something."""
    wrong_mirrors: tuple[ErrorFacts, ...] = ()
    """What is wrong with mirrors that do not only wait, and that no dump has made anew."""

    def raise_if_withheld(self) -> None:
        """Lets nobody take a part for the whole.

        Raises:
            ChecksFailedError: Rows of one of the runs are not published.
            LostTableError: A table lacks what was published.
            MirrorDivergedError: A mirror is wrong.
        """
        for run in self.runs:
            run.published.raise_if_withheld()
        raise_if_lost(self.lost)
        raise_first(self.source, self.wrong_mirrors)


def run_source(wanted: Wanted, spark: OnSpark, watcher: Watcher, *, settings: Settings) -> WholeReport:
    """Does the whole. Killed at any time, it leaves what a run of the DAG leaves; called again it goes on from there.

    Args:
        wanted: What to do.
        spark: Its steps are called only where there are rows to decode.
        watcher: Is told of each step.
        settings: The settings.

    Raises:
        StrataError: Whatever a step raises. A failed check, a slice that cannot be decoded and a gap are no error here:
            they withhold a table's rows and nothing else (`WholeReport.raise_if_withheld`).
    """
    return _Whole(wanted, spark, watcher, settings).run()


class _Whole:
    """One call at work."""

    def __init__(self, wanted: Wanted, spark: OnSpark, watcher: Watcher, settings: Settings) -> None:
        self._wanted, self._spark, self._watcher, self._settings = wanted, spark, watcher, settings

    def run(self) -> WholeReport:
        refuse_misspelt(self._settings.source(self._wanted.source), self._wanted.tables)
        snapshot, landed, tracked = self._snapshot(), self._land(), self._track()
        runs: list[OneRun] = []
        planned = self._plan()
        while planned.tables:
            runs.append(self._one_run(planned))
            if self._wanted.take is None or not _has_more(planned):
                break
            planned = self._plan()
        mirrors, dumped = self._mirror()
        self._compact()
        ingest.housekeep(self._wanted.source, settings=self._settings)
        return WholeReport(
            self._wanted.source,
            snapshot,
            landed,
            tracked,
            tuple(runs),
            planned.left,
            None if mirrors is None else mirrors.sums(),
            None if dumped is None else dumped.sums(),
            self._lost(),
            () if mirrors is None else mirrors.wrong,
        )

    def _mirror(self) -> tuple[MirrorReport | None, DumpReport | None]:
        source, settings = self._wanted.source, self._settings
        if not settings.source(source).settings.mirrors:
            return None, None
        self._watcher.begin("mirror")
        report = ingest.mirror(source, settings=settings)
        self._watcher.end("mirror", mirrored_said(report.sums()))
        dumped = self._read_again()
        if dumped is not None and dumped.tables:
            report = ingest.mirror(source, settings=settings)
        return report, dumped

    def _read_again(self) -> DumpReport | None:
        """What a run of all that is owed does besides; one of a part of the past has nothing to do with it."""
        wanted, settings = self._wanted, self._settings
        if wanted.until is not None or wanted.take is None:
            return None
        if not tables_to_read_again(wanted.source, settings=settings):
            return None
        self._watcher.begin("read again")
        report = read_again(wanted.source, settings=settings)
        self._watcher.end("read again", read_again_said(report))
        return report

    def _lost(self) -> tuple[ErrorFacts, ...]:
        """Whether or not the run has to do with a table: nobody else would look."""
        source = self._settings.source(self._wanted.source)
        return lost_tables(source, open_store(source.store_url))

    def _compact(self) -> None:
        done = compact_due(self._wanted.source, settings=self._settings)
        for line in done.lines():
            self._watcher.end("mirror", line)

    def _snapshot(self) -> SnapshotReport | None:
        self._watcher.begin("snapshot")
        taken = ingest.first_snapshot(self._wanted.source, settings=self._settings)
        if taken is not None:
            self._watcher.end("snapshot", f"{counted(taken.tables, 'table')} as of {taken.gtid_executed or 'now'}")
        return taken

    def _land(self) -> LandStepReport:
        self._watcher.begin("land")
        report = ingest.land_binlogs(self._wanted.source, settings=self._settings, progress=self._watcher.landed)
        self._watcher.end("land", landed_said(report))
        return report

    def _track(self) -> TrackReport:
        self._watcher.begin("track")
        report = ingest.track(self._wanted.source, settings=self._settings)
        self._watcher.end("track", tracked_said(report))
        return report

    def _plan(self) -> PlanReport:
        wanted = self._wanted
        self._watcher.begin("plan")
        if wanted.since is not None and wanted.until is not None:
            refuse_before_stream(wanted.source, wanted.until, settings=self._settings)
        report = ingest.plan(
            wanted.source,
            wanted.since,
            wanted.until,
            settings=self._settings,
            tables=wanted.tables,
            gtid_set=wanted.gtid_set,
            take=wanted.take,
            failed=wanted.failed,
        )
        self._watcher.end("plan", planned_said(report))
        return report

    def _one_run(self, planned: PlanReport) -> OneRun:
        run = planned.run
        decoded: DecodeReport | None = None
        verdicts: list[IntervalVerdict] = []
        if planned.slices:
            self._watcher.begin("decode")
            decoded = self._spark.decode(run)
            self._watcher.end("decode", decoded_said(decoded))
            self._watcher.begin("check")
            verdicts = self._spark.check(run)
            self._watcher.end("check", checked_said(verdicts))
        self._watcher.begin("publish")
        published = ingest.publish(self._wanted.source, run, settings=self._settings)
        self._watcher.end("publish", published_said(published))
        failures = sum(len(verdict.failures) for verdict in verdicts)
        return OneRun(planned, decoded, sum(verdict.checks for verdict in verdicts), failures, published)


def _has_more(planned: PlanReport) -> bool:
    """Whether a run has left something because it takes so much at most."""
    return bool(planned.left.owed or planned.left.transactions)
