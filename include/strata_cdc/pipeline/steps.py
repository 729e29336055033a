"""The steps of a source as one value, in their order: the DAGs, `strata run`, the commands and the tests read it.
Not here: the steps themselves (a folder each in `pipeline/`), their tasks (`airflow/steps.py`), a whole run
(`run_source.py`).

Nothing heavy is imported before a step is done: Airflow parses what it imports."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from strata_cdc.pipeline.lines import (
    checked_line,
    decoded_line,
    landed_line,
    mirrored_line,
    planned_line,
    published_line,
    read_again_line,
    snapshot_line,
    tracked_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.mirrors.dump.dump_tables import DumpReport
    from strata_cdc.mirrors.follow.update_mirrors import MirrorReport
    from strata_cdc.pipeline.ingest import LandStepReport
    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.quality.check_step.check_interval import CheckReport
    from strata_cdc.runs.specs import DecodeReport, PlanReport
    from strata_cdc.runs.verdict import IntervalVerdict
    from strata_cdc.schema.tracker.stream import TrackReport
    from strata_cdc.tracking.snapshot_schemas import SnapshotReport

R = TypeVar("R")
"""The report of a step."""


class Scope(Enum):
    """How often a step is done."""

    SOURCE = auto()
    """Once for a source."""
    RUN = auto()
    """For each planned run: one takes so much at most (`run_mb`)."""


class DoneBy(Flag):
    """Who does a step."""

    TASK = auto()
    """A task of `ingest_binlog`."""
    COMMAND = auto()
    """`strata run`."""


@dataclass(frozen=True, kw_only=True)
class StepSpec(Generic[R]):
    """What everybody has to know of a step before it is done."""

    name: str
    """Of its task."""
    does: str
    """In half a sentence, Markdown."""
    reads: str
    """Markdown."""
    leaves: str
    """What is there when it is done, Markdown."""
    line: Callable[[R], str]
    """A report in one line."""
    scope: Scope = Scope.SOURCE
    after: str | None = None
    """The task that it follows, if that is not the one before it."""
    done_by: DoneBy = DoneBy.TASK | DoneBy.COMMAND
    airflow: Mapping[str, Any] = field(default_factory=dict)
    """Options of its task."""

    @property
    def words(self) -> str:
        """Its name on a terminal."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class LocalStep(StepSpec[R]):
    """A step that is done in the process that asks for it: call it as its function is called."""

    load: Callable[[], Callable[..., R]]
    """Imports its function."""

    def __call__(self, *arguments: Any, **options: Any) -> R:
        """Does it."""
        return self.load()(*arguments, **options)


@dataclass(frozen=True, kw_only=True)
class StepOnSpark(StepSpec[R]):
    """A step that Spark does, or may do."""

    program: str
    """File in `spark_jobs/`."""
    load_here: Callable[[], Callable[..., Any]]
    """Imports the function that does it in this process; it returns None where Spark is to do it."""

    def here(self, *arguments: Any, **options: Any) -> Any:
        """Does it in this process, and returns a report; None where Spark is to do it."""
        return self.load_here()(*arguments, **options)


def _snapshot() -> Callable[..., SnapshotReport | None]:
    from strata_cdc.pipeline.ingest import first_snapshot

    return first_snapshot


def _land() -> Callable[..., LandStepReport]:
    from strata_cdc.pipeline.ingest import land_binlogs

    return land_binlogs


def _track() -> Callable[..., TrackReport]:
    from strata_cdc.pipeline.ingest import track

    return track


def _plan() -> Callable[..., PlanReport]:
    from strata_cdc.pipeline.ingest import plan

    return plan


def _decode_here() -> Callable[..., DecodeReport | None]:
    from strata_cdc.pipeline.decode.decode_here import decode_here

    return decode_here


def _check_here() -> Callable[..., CheckReport | None]:
    from strata_cdc.quality.check_step.check_interval import check_here

    return check_here


def _publish() -> Callable[..., PublishReport]:
    from strata_cdc.pipeline.ingest import publish

    return publish


def _report_left() -> Callable[..., None]:
    from strata_cdc.pipeline.ingest import report_left

    return report_left


def _mirror() -> Callable[..., MirrorReport]:
    from strata_cdc.pipeline.ingest import mirror

    return mirror


def _read_again() -> Callable[..., DumpReport]:
    from strata_cdc.pipeline.read_again import read_again

    return read_again


SNAPSHOT: Final[LocalStep[SnapshotReport | None]] = LocalStep(
    name="snapshot",
    load=_snapshot,
    does="the schema of every table, before anything has landed",
    reads="`information_schema` at a GTID set, or file and offset",
    leaves="a row in `snapshot`",
    line=snapshot_line,
    # Airflow's task `land` takes it, so that a source has no task that is skipped for ever after its first run.
    done_by=DoneBy.COMMAND,
)
LAND: Final[LocalStep[LandStepReport]] = LocalStep(
    name="land",
    load=_land,
    does="copies the transactions that the server has executed and that have not landed, byte for byte",
    reads="the server's stream, or files",
    leaves="`<lake>/landing/<source>/`: segments, each with its index",
    line=landed_line,
)
TRACK: Final[LocalStep[TrackReport]] = LocalStep(
    name="track",
    load=_track,
    does="DDL to schema versions, in the table `schema_version`; each is an event of `strata://SOURCE/schema`",
    reads="segments",
    leaves="`schema_version`, `table_version`, `table_schema`",
    line=tracked_line,
)
PLAN: Final[LocalStep[PlanReport]] = LocalStep(
    name="plan",
    load=_plan,
    does="takes what is pending, oldest first, and cuts it into slices, none of which spans a DDL",
    reads="the index, the historian, the ledger of what is pending",
    leaves="closed intervals with their rows by table (`table_interval`); `<lake>/runs/<source>/<run>/plan.json`, and "
    "`past.json`: the state before them",
    line=planned_line,
    scope=Scope.RUN,
)
DECODE: Final[StepOnSpark[DecodeReport]] = StepOnSpark(
    name="decode",
    program="decode_slices.py",
    load_here=_decode_here,
    does="a thread, or a Spark task, decodes a slice and writes its Parquet files beside the tables",
    reads="segments, the plan",
    leaves="staged Parquet, `decoded.json`",
    line=decoded_line,
    scope=Scope.RUN,
)
CHECK: Final[StepOnSpark[Sequence[IntervalVerdict]]] = StepOnSpark(
    name="check",
    program="check_interval.py",
    load_here=_check_here,
    does="expectations compiled from the schema versions, judged in one pass; a table that fails is withheld",
    reads="staged Parquet, each file once",
    leaves="`verdict.json`, `judged.json`, quarantine, Data Docs of what failed",
    line=checked_line,
    scope=Scope.RUN,
)
PUBLISH: Final[LocalStep[PublishReport]] = LocalStep(
    name="publish",
    load=_publish,
    does="one Delta commit per table and interval, and an asset event with rows, schema version and GTID set",
    reads="the verdict, staged Parquet",
    leaves="the verdict in the store; one Delta commit per table and interval; its state in `table_interval`",
    line=published_line,
    scope=Scope.RUN,
    # One table's failure withholds no other. Airflow's `all_done_min_one_success` skips a task of which one before it
    # was skipped, as `check` is without rows.
    airflow={"trigger_rule": "all_done"},
)
MIRROR: Final[LocalStep[MirrorReport]] = LocalStep(
    name="mirror",
    load=_mirror,
    does="brings the mirrors that the settings name up to what is published",
    reads="published changes, the history, the ledger",
    leaves="commits of the mirrors, each with its position",
    line=lambda report: mirrored_line(report.sums()),
)
REPORT_LEFT: Final[LocalStep[None]] = LocalStep(
    name="report_left",
    load=_report_left,
    does="shows where the Data Docs are; fails when rows were not published or were deleted, and names them, the "
    "reason and the next command",
    reads="the plan, the ledger",
    leaves="nothing",
    line=lambda _: "all rows of the run are published",
    scope=Scope.RUN,
    # Rows that were not published are reported whatever becomes of the mirrors.
    after="publish",
    # The command reports it at its end, for all runs together.
    done_by=DoneBy.TASK,
)
READ_AGAIN: Final[LocalStep[DumpReport]] = LocalStep(
    name="read_again",
    load=_read_again,
    does="has the tables read again whose mirrors are blocked because no log has their rows",
    reads="the ledger `read_again`, the server",
    leaves="mirrors of tables whose rows no log has",
    line=read_again_line,
    after="mirror",
    # If one mirror has a problem, other tables' dumps go on.
    airflow={"trigger_rule": "all_done"},
)
STEPS: Final[tuple[StepSpec[Any], ...]] = (
    SNAPSHOT,
    LAND,
    TRACK,
    PLAN,
    DECODE,
    CHECK,
    PUBLISH,
    MIRROR,
    REPORT_LEFT,
    READ_AGAIN,
)
"""From `plan` to `publish` they are repeated until nothing is pending."""


def steps_of(who: DoneBy) -> list[StepSpec[Any]]:
    """The steps that somebody does, in their order."""
    return [step for step in STEPS if who in step.done_by]


def edges() -> list[tuple[str, str]]:
    """Which task follows which, by name."""
    tasks = steps_of(DoneBy.TASK)
    return [(step.after or before.name, step.name) for before, step in pairwise(tasks)]


def following(step: StepSpec[Any]) -> str:
    """The names of the tasks after a step's, in a line; empty after the last."""
    return ", ".join(after for before, after in edges() if before == step.name)


def table_of_steps() -> str:
    """The steps that have a task, as a table in Markdown."""
    rows = [f"| `{step.name}` | {step.does} |" for step in steps_of(DoneBy.TASK)]
    return "\n".join(["| step | does |", "|---|---|", *rows])
