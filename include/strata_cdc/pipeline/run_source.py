"""All that `ingest_binlog` does of a source, by one call: land, track, and run after run until nothing is pending.
Not here: the steps and their order (`steps.py`), what decodes, how Spark is started and what is shown (the command
line)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from strata_cdc.errors import RunClearedError
from strata_cdc.lake.lost_tables import lost_tables_if_due, raise_if_lost
from strata_cdc.mirrors.follow.update_mirrors import raise_first
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.keep_mirrors import compact_due
from strata_cdc.pipeline.plan.pending import WorkChoice
from strata_cdc.pipeline.plan.refuse_early import refuse_before_stream, refuse_misspelt
from strata_cdc.pipeline.read_again import tables_to_read_again
from strata_cdc.pipeline.steps import LAND, MIRROR, PLAN, PUBLISH, READ_AGAIN, SNAPSHOT, TRACK, DoneBy, Scope, steps_of
from strata_cdc.runs.run_folder import read_verdicts, run_folder
from strata_cdc.store.database import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from strata_cdc.config.settings import Settings
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.landing.land_state import LandProgress
    from strata_cdc.mirrors.dump.dump_tables import DumpReport, DumpSums
    from strata_cdc.mirrors.follow.update_mirrors import MirrorSums
    from strata_cdc.pipeline.ingest import LandStepReport
    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.pipeline.steps import StepSpec
    from strata_cdc.runs.specs import DecodeReport, PlanReport, RunRemainder
    from strata_cdc.runs.verdict import IntervalVerdict
    from strata_cdc.schema.tracker.stream import TrackReport
    from strata_cdc.tracking.snapshot_schemas import SnapshotReport


class SourceRequest(Struct, frozen=True):
    """What to do for a source; nothing given: all that is pending."""

    source: str
    until: int | None = None
    """Only what was committed before this time, microseconds UTC."""
    tables: tuple[str, ...] = ()
    """Patterns of `database.table`, on top of the settings'."""
    gtid_set: str | None = None
    """Instead: from the first to the last of these transactions, whatever became of them before."""
    failed: bool = False
    """Also rows that failed or are blocked (held)."""
    since: int | None = None
    """Instead: all from this time on (microseconds UTC, `until` is its end), whatever became of it before."""
    again: bool = False
    """Whatever became of it before, without `since` too."""

    @property
    def choice(self) -> WorkChoice | None:
        """What a plan processes: what is pending, or by default all of what was requested."""
        return WorkChoice.PENDING if self.gtid_set is None and self.since is None and not self.again else None


class Engines(Protocol):
    """The two steps that Spark may do."""

    def decode(self, run: str) -> DecodeReport:
        """Decodes a planned run."""
        ...

    def check(self, run: str) -> Sequence[IntervalVerdict]:
        """Judges a decoded run."""
        ...


class Watcher(Protocol):
    """Receives the progress of a run."""

    def begin(self, step: str) -> None:
        """A step begins."""
        ...

    def landed(self, progress: LandProgress) -> None:
        """The landing has come this far."""
        ...

    def end(self, step: str, summary: str) -> None:
        """A step is done."""
        ...


class OneRun(Struct, frozen=True):
    """What one plan became."""

    planned: PlanReport
    decoded: DecodeReport | None
    """None where there was nothing to decode."""
    checks: int
    failed_checks: int
    published: PublishReport


class WholeReport(Struct, frozen=True):
    """The outcome of all steps for a source."""

    source: str
    snapshot: SnapshotReport | None
    """Of the schemas; None if there was no need."""
    landed: LandStepReport
    tracked: TrackReport
    runs: tuple[OneRun, ...]
    left: RunRemainder
    """What is owed, failed or held before the end, and landed transactions that no interval owns."""
    mirrors: MirrorSums | None = None
    """The mirrors at the end; None where the settings name none."""
    read_again: DumpSums | None = None
    """The dumps that the run has begun automatically; None if it had to begin none."""
    lost: tuple[ErrorFacts, ...] = ()
    """What is wrong with tables of which somebody has deleted something."""
    wrong_mirrors: tuple[ErrorFacts, ...] = ()
    """What is wrong with mirrors that do not only wait, and that no dump has rebuilt."""

    def raise_if_withheld(self) -> None:
        """Fails if something is wrong, so that a part is not taken for the whole.

        Raises:
            ChecksFailedError: Rows of one of the runs are not published.
            LostTableError: A table lacks what was published.
            MirrorDivergedError: A mirror is wrong.
        """
        for run in self.runs:
            run.published.raise_if_withheld()
        raise_if_lost(self.lost)
        raise_first(self.source, self.wrong_mirrors)


def run_source(wanted: SourceRequest, engines: Engines, watcher: Watcher, *, settings: Settings) -> WholeReport:
    """Does all steps. Killed at any time, it leaves what a run of the DAG leaves; called again, it continues from
    there.

    Args:
        wanted: What to do.
        engines: Its steps are called only where there are rows to decode.
        watcher: Informed of each step.
        settings: The settings.

    Raises:
        StrataError: Whatever a step raises. A failed check, a slice that cannot be decoded and a gap are no error here:
            they withhold a table's rows and nothing else (`WholeReport.raise_if_withheld`).
    """
    return _RunningCall(wanted, engines, watcher, settings).run()


class _RunningCall:
    """One call while it runs: how each step is called, and what it has reported. The order is that of `STEPS`."""

    def __init__(self, wanted: SourceRequest, engines: Engines, watcher: Watcher, settings: Settings) -> None:
        self._wanted, self._watcher, self._settings = wanted, watcher, settings
        source = wanted.source
        self._calls: dict[str, Callable[[], Any]] = {
            "snapshot": lambda: SNAPSHOT(source, settings=settings),
            "land": lambda: LAND(source, settings=settings, progress=watcher.landed),
            "track": lambda: TRACK(source, settings=settings),
            "plan": self._plan,
            "decode": lambda: engines.decode(self._planned.run) if self._planned.slices else None,
            "check": lambda: self._check(engines) if self._planned.slices else None,
            "publish": lambda: PUBLISH(source, self._planned.run, settings=settings) if self._planned.tables else None,
            "mirror": lambda: MIRROR(source, settings=settings) if self._has_mirrors() else None,
            "read_again": self._read_again,
        }
        """Each gives the step's report; None where there was no need."""
        self._reports: dict[str, Any] = {}
        """The newest of each step."""

    @property
    def _planned(self) -> PlanReport:
        report: PlanReport = self._reports["plan"]
        return report

    def run(self) -> WholeReport:
        source, settings = self._wanted.source, self._settings
        refuse_misspelt(settings.source(source), self._wanted.tables)
        runs: list[OneRun] = []
        for scope, group in groupby(steps_of(DoneBy.COMMAND), key=lambda step: step.scope):
            steps = list(group)
            if scope is Scope.RUN:
                runs = list(self._runs(steps))
            else:
                self._do(steps)
        for kept in compact_due(source, settings=settings):
            self._watcher.end("mirror", kept.line)
        ingest.housekeep(source, settings=settings)
        mirrors, dumped = self._reports["mirror"], self._reports["read_again"]
        return WholeReport(
            source,
            self._reports["snapshot"],
            self._reports["land"],
            self._reports["track"],
            tuple(runs),
            self._planned.left,
            None if mirrors is None else mirrors.sums(),
            None if dumped is None else dumped.sums(),
            self._lost(),
            () if mirrors is None else mirrors.wrong,
        )

    def _lost(self) -> tuple[ErrorFacts, ...]:
        """Whether or not the run has to do with a table: nobody else would look."""
        source = self._settings.source(self._wanted.source)
        return lost_tables_if_due(source, open_store(source.store_url))

    def _runs(self, steps: Sequence[StepSpec[Any]]) -> Iterator[OneRun]:
        """One run after the other, until nothing is pending or all that was requested is done."""
        is_left = True
        while is_left:
            self._do(steps)
            planned = self._planned
            if planned.tables:
                yield _one_run(planned, self._reports)
            is_left = bool(planned.tables) and self._wanted.choice is not None and _has_more(planned)

    def _do(self, steps: Iterable[StepSpec[Any]]) -> None:
        for step in steps:
            self._watcher.begin(step.words)
            report = self._reports[step.name] = self._calls[step.name]()
            if report is not None:
                self._watcher.end(step.words, step.line(report))

    def _check(self, engines: Engines) -> Sequence[IntervalVerdict]:
        run, source = self._planned.run, self._settings.source(self._wanted.source)
        try:
            return engines.check(run)
        except RunClearedError:
            # Another process has judged and published it since it was decoded here.
            return tuple(read_verdicts(run_folder(source.lake, source.name, run)).values())

    def _plan(self) -> PlanReport:
        wanted = self._wanted
        if wanted.since is not None and wanted.until is not None:
            refuse_before_stream(wanted.source, wanted.until, settings=self._settings)
        return PLAN(
            wanted.source,
            wanted.since,
            wanted.until,
            settings=self._settings,
            tables=wanted.tables,
            gtid_set=wanted.gtid_set,
            choice=wanted.choice,
            failed=wanted.failed,
        )

    def _has_mirrors(self) -> bool:
        return bool(self._settings.source(self._wanted.source).settings.mirrors)

    def _read_again(self) -> DumpReport | None:
        """What a run of all that is pending does in addition; a run of a part of the past does not do it."""
        wanted, settings = self._wanted, self._settings
        if not self._has_mirrors() or wanted.until is not None or wanted.choice is None:
            return None
        if not tables_to_read_again(wanted.source, settings=settings):
            return None
        report = READ_AGAIN(wanted.source, settings=settings)
        if report.tables:
            self._reports["mirror"] = MIRROR(wanted.source, settings=settings)
        return report


def _one_run(planned: PlanReport, reports: Mapping[str, Any]) -> OneRun:
    verdicts: Sequence[IntervalVerdict] = reports["check"] or ()
    failures = sum(len(verdict.failures) for verdict in verdicts)
    checks = sum(verdict.checks for verdict in verdicts)
    return OneRun(planned, reports["decode"], checks, failures, reports["publish"])


def _has_more(planned: PlanReport) -> bool:
    """Whether a run has left something because it takes so much at most."""
    return bool(planned.left.owed or planned.left.transactions)
