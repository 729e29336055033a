"""Judges what a run has staged, before anybody reads it: verdict, quarantine, the data for the Data Docs.
Not here: the checks (`quality/checks/`), publishing (`pipeline/publish/publish_run.py`), the Spark session
(`spark_jobs/`)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.config.engines import Engine
from strata_cdc.counted import counted
from strata_cdc.errors import ChecksFailedError, Permanent
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import parse_executed
from strata_cdc.quality.check_step.compare_earlier import DEFAULT_KEYS, EarlierComparison, log_line, sampling_of
from strata_cdc.quality.check_step.crossed_rows import crossed_rows
from strata_cdc.quality.check_step.data_docs import can_write_docs, docs_url, forget_docs, write_docs, write_judged
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.quality.check_step.run_pass import SMALL_BYTES, is_small, pass_in_spark, pass_in_threads
from strata_cdc.quality.checks.own import own_rules
from strata_cdc.quality.checks.own_columns import VersionsBefore
from strata_cdc.quality.checks.pass_engine import PassEngine, task_of
from strata_cdc.quality.checks.rules import StreamFacts
from strata_cdc.quality.checks.run import damaged_file, judge_interval
from strata_cdc.quality.checks.sensitive import Sensitive
from strata_cdc.quality.checks.spark_frames import frame_keys, frame_of
from strata_cdc.quality.checks.subject import JudgedFile, Suite, TableSubject, count_rules
from strata_cdc.quality.checks.suite import SuiteJudge
from strata_cdc.runs.in_spark import is_remote
from strata_cdc.runs.run_folder import read_plan, read_staged, run_folder, write_verdicts
from strata_cdc.runs.run_past import read_past
from strata_cdc.runs.verdict import Failure, Severity
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.store.full_names import full_name
from strata_cdc.store.withheld import ASIDE
from strata_cdc.tables.layout import interval_key
from strata_cdc.tables.pinned import find_damage
from strata_cdc.tables.quarantine import put_in_quarantine
from strata_cdc.ticdc.landed_rows import COMMITS
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.files.storage import Folder
    from strata_cdc.quality.checks.before_after import Firsts
    from strata_cdc.runs.run_folder import DecodedRun
    from strata_cdc.runs.run_past import RunPast
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.specs import Interval, StatementLogged
    from strata_cdc.runs.verdict import IntervalVerdict
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.tables.write import StagedFile

MOST_MESSAGES = 5
"""Failures that a report quotes; all of them are in the verdict."""
MESSAGE_LENGTH = 120


class Checking(Struct, frozen=True):
    """How a run is judged."""

    own_expectations: str | None = None
    """Folder of users' own expectations."""
    compare_keys: int | None = DEFAULT_KEYS
    """Of how many keys of a table and interval the first image is compared with earlier intervals; None for all."""
    small_bytes: int = SMALL_BYTES
    """Up to this size of all files, threads of this process read them."""

    @classmethod
    def from_settings(cls, own_expectations: str | None, compare_keys: int | str) -> Checking:
        """As the settings have it; `compare_keys` is a number, or `all`."""
        keys = None if compare_keys == "all" else int(compare_keys)
        return cls(own_expectations or None, keys)


class Spark(Protocol):
    """What is used of a SparkSession: this library knows no framework."""

    @property
    def read(self) -> Any:
        """The session's DataFrameReader."""

    def createDataFrame(self, data: Any) -> Any:  # noqa: N802  the name is Spark's
        """A DataFrame of an Arrow table."""


class CheckReport(Struct, frozen=True):
    """What the checks of a run found, small enough for XCom; the verdicts are in the run folder."""

    source: str
    run: str
    intervals: int
    tables: int
    rows: int
    checks: int
    errors: int
    warnings: int
    messages: tuple[str, ...]
    """The first failures, errors before warnings."""
    docs: str
    """First page of the Data Docs; empty if there was nothing to check."""

    def raise_if_failed(self) -> None:
        """Fails if something may not be published.

        Raises:
            ChecksFailedError: A check of severity error failed.
        """
        if self.errors:
            raise ChecksFailedError(
                f"{self.errors} of {self.checks} checks failed: {'; '.join(self.messages)}",
                source=self.source,
                remedy=f"`strata check {self.run} --source {self.source}` shows all of them"
                + (f", and so does {self.docs}." if self.docs else "."),
            )


def check_interval(
    lake: str,
    source: str,
    run: str,
    open_spark: Callable[[], Spark],
    checking: Checking | None = None,
    progress: CheckProgress | None = None,
) -> CheckReport:
    """Judges every interval of a run, and leaves `verdict.json` and, of what failed, Data Docs and quarantined files.

    Where nothing failed, and nothing of the user's had to be run, the Data Docs are left to `data_docs.write_docs`.

    Safe to repeat; the verdict replaces an earlier one.

    Args:
        run: The run's key; its folder has the plan and what was decoded.
        open_spark: Gives a SparkSession; called only if one is used.
        checking: How it is judged.
        progress: Receives the progress.

    Returns:
        The report, also of a failure: `CheckReport.raise_if_failed` decides.

    Raises:
        Usage: The run has not been decoded.
        RunClearedError: It is published, and its staged files were deleted.
        LakeUnavailableError: The storage does not answer.
        SettingsError: A file of users' own expectations has mistakes.
    """
    return _check(
        _StagedRun.from_folder(lake, source, run), open_spark, checking or Checking(), progress or CheckProgress()
    )


def check_here(
    run_url: str, own_expectations: str | None, compare_keys: int | str, progress: CheckProgress | None = None
) -> CheckReport | None:
    """As `check_interval` without Spark; None where the check of a run is worth a JVM: for users' own expectations, or
    for its size.

    Args:
        run_url: `<lake>/runs/<source>/<run>`.
        own_expectations: As of `Checking.from_settings`.
        compare_keys: Likewise.
        progress: Receives the progress.

    Raises:
        StrataError: As `check_interval`.
    """
    lake, _, source, run = run_url.rstrip("/").rsplit("/", 3)
    checking = Checking.from_settings(own_expectations, compare_keys)
    decoded_run = _StagedRun.from_folder(lake, source, run)
    if decoded_run.needs_spark(checking):
        return None
    return _check(decoded_run, _no_spark, checking, progress or CheckProgress())


def _no_spark() -> Spark:
    raise AssertionError("`needs_spark` has decided that Spark is not needed")


class _StagedRun(Struct, frozen=True):
    """A run of which the rows are staged."""

    lake: str
    folder: Folder
    plan: RunPlan
    decoded: DecodedRun

    @classmethod
    def from_folder(cls, lake: str, source: str, run: str) -> _StagedRun:
        folder = run_folder(lake, source, run)
        return cls(lake, folder, read_plan(folder), read_staged(folder))

    def needs_spark(self, checking: Checking) -> bool:
        """Whether its check is worth a JVM."""
        tables = sorted({(table.database, table.table) for table in self.plan.tables})
        return not self.is_checked_in_threads(checking) or any(
            own_rules(checking.own_expectations, TableName(*name)) for name in tables
        )

    def is_checked_in_threads(self, checking: Checking) -> bool:
        """Whether the pass over the files is done here: what was decoded without Spark is checked without it."""
        engine, files = self.decoded.engine, self.decoded.files
        is_local = engine is not None and engine.engine is Engine.LOCAL
        return is_local or is_small((file.size_bytes for file in files), checking.small_bytes)


def _check(
    decoded_run: _StagedRun, open_spark: Callable[[], Spark], checking: Checking, progress: CheckProgress
) -> CheckReport:
    folder, plan, decoded = decoded_run.folder, decoded_run.plan, decoded_run.decoded
    lake, source, run = decoded_run.lake, plan.source, plan.run
    past = read_past(folder, plan)
    subjects = {interval.start: _subjects(plan, interval, decoded, checking, past) for interval in plan.intervals}
    everything = [subject for some in subjects.values() for subject in some]
    forget_docs(folder)
    in_threads = decoded_run.is_checked_in_threads(checking)
    judging = _Judging(run, open_spark, progress, in_threads=in_threads)
    files = sum(len(subject.files) for subject in everything)
    rows = sum(file.rows for subject in everything for file in subject.files)
    with progress.running(len({judged.table for judged in everything}), files, rows, sum(map(count_rules, everything))):
        engine = judging.engine(checking, subjects)
        profiles = {url: profile for subject in everything for url, profile in engine.profiles(subject).items()}
        images = EarlierComparison(lake, plan, decoded, past, subjects)
        earlier = images.compare(judging.firsts, profiles, checking.compare_keys)
        if earlier:
            progress.tell(log_line(earlier))
        verdicts = []
        for interval in plan.intervals:
            unreadable = decoded.unreadable(interval.start)
            damage = find_damage(unreadable)
            verdict = judge_interval(
                engine,
                source,
                interval.start,
                interval_key(interval.start),
                subjects[interval.start],
                [
                    *_missing_transactions(plan, interval),
                    *_undecoded(decoded, interval),
                    *unlogged_changes(plan, interval),
                    *crossed_rows(plan, interval, decoded),
                    *(_left_out(file, damage.get(file.url)) for file in unreadable),
                ],
                {table: images for (start, table), images in earlier.items() if start == interval.start},
            )
            verdicts.append(replace(verdict, engine="" if decoded.engine is None else str(decoded.engine)))
            failed = [file for file in decoded.publishable(interval.start) if verdict.failures_of(_name(file))]
            damage |= {url: why for subject in subjects[interval.start] for url, why in _damaged(engine, subject)}
            # What is not what was decoded is nobody's row: there is nothing to keep of it.
            kept = [file for file in (*failed, *unreadable) if file.url not in damage]
            if kept:
                put_in_quarantine(lake, source, run, interval.start, kept, verdict)
    if any(_damaged(engine, subject) for subject in everything):
        # Another process that does the same run may have published it meanwhile, and deleted the files.
        read_staged(folder)
    write_judged(folder, engine.suites)
    write_verdicts(folder, verdicts)
    has_docs = bool(decoded.files) and can_write_docs()
    report = _report(source, run, verdicts, docs_url(folder) if has_docs else "")
    progress.end(report.checks, report.errors, report.warnings)
    if has_docs and (judging.judge is not None or report.errors):
        write_docs(folder, judging.judge)
    return report


class _Judging:
    """The pass over a run's files, and Great Expectations once somebody needs it."""

    def __init__(self, run: str, open_spark: Callable[[], Spark], progress: CheckProgress, *, in_threads: bool) -> None:
        self.judge: SuiteJudge | None = None
        self.firsts: dict[str, Firsts] = {}
        """By file, what is to be compared with earlier intervals."""
        self._run, self._open_spark, self._progress = run, open_spark, progress
        self._in_threads = in_threads

    def engine(self, checking: Checking, subjects: Mapping[int, Sequence[TableSubject]]) -> PassEngine:
        tasks = [
            task_of(subject, file, sampling_of(checking.compare_keys, interval))
            for interval, some in subjects.items()
            for subject in some
            for file in subject.files
        ]
        if self._in_threads:
            passed = pass_in_threads(tasks, self._progress)
        else:
            passed = pass_in_spark(tasks, self._open_spark(), self._progress)
        self.firsts = passed.firsts()
        return PassEngine(passed, self._run_own)

    def _run_own(self, subject: TableSubject, suite: Suite) -> list[Failure]:
        if suite.version is None:
            return []
        frame = frame_of(self._read, subject, suite.version)
        keys = frame_keys(subject, suite.version, frame)
        return self._great_expectations().run(
            f"{suite.name}, own", subject.name, frame, suite.own, keys, subject.sensitive
        )

    def _great_expectations(self) -> SuiteJudge:
        if self.judge is None:
            if is_remote(self._open_spark()):
                raise Permanent(
                    "your own expectations cannot be evaluated by Spark Connect: nothing here can keep its server from "
                    "logging the values of rows",
                    remedy="Run this check by spark-submit: unset SPARK_REMOTE.",
                )
            self.judge = SuiteJudge(self._run)
        return self.judge

    def _read(self, urls: Sequence[str]) -> Any:
        return self._open_spark().read.parquet(*map(spark_url, urls))


def _damaged(engine: PassEngine, subject: TableSubject) -> list[tuple[str, str]]:
    profiles = engine.profiles(subject)
    return [(file.url, damage) for file in subject.files if (damage := profiles[file.url].damage) is not None]


def _undecoded(decoded: DecodedRun, interval: Interval) -> list[Failure]:
    """Tables of which a slice cannot be decoded: none of their rows of the interval are published."""
    return [
        Failure.error(
            full_name(database, table),
            "slices_can_be_decoded",
            error.message,
            examples=(json.dumps(to_plain(error), ensure_ascii=False),),
        )
        for (database, table), error in decoded.lost(interval.start).items()
    ]


def spark_url(url: str) -> str:
    """A path or URL of the lake as Hadoop's file systems call it."""
    if "://" not in url:
        return f"file://{url}"
    return f"s3a://{url.removeprefix('s3://')}" if url.startswith("s3://") else url


def _subjects(
    plan: RunPlan, interval: Interval, decoded: DecodedRun, checking: Checking, past: RunPast
) -> list[TableSubject]:
    """What is judged of an interval: its tables that were decoded whole, each with the versions of its own."""
    definitions: dict[tuple[str, str], dict[int, TableDefinition]] = {}
    for version in plan.versions:
        of_table = definitions.setdefault((version.database, version.table), {})
        of_table[version.version_id] = definition_from_json(version.definition)
    files, lost = decoded.publishable(interval.start), decoded.lost(interval.start)
    left_out = Counter[tuple[str, str]]()
    for file in decoded.unreadable(interval.start):
        left_out[file.database, file.table] += file.rows
    subjects = []
    for table in plan.of_interval(interval):
        key = (table.database, table.table)
        versions = definitions.get(key, {})
        if key not in lost and table.held is None:
            name = TableName(*key)
            # An interval owns the transactions after its first mark, up to and with its last.
            seqs = (interval.after_seq + 1, interval.last_seq)
            subjects.append(
                TableSubject(
                    table=name,
                    files=tuple(_judged(file) for file in files if (file.database, file.table) == key),
                    facts=StreamFacts(table.rows - left_out[key], *seqs, tuple(sorted(versions))),
                    definitions=versions,
                    own=tuple(own_rules(checking.own_expectations, name)),
                    sensitive=Sensitive.from_names(plan.sensitive.get(str(name), ())),
                    past=VersionsBefore()
                    if (earlier := past.earlier_table(*key)) is None
                    else VersionsBefore(earlier.lifetimes),
                )
            )
    return subjects


def _judged(file: StagedFile) -> JudgedFile:
    return JudgedFile(
        file.url,
        file.digest,
        file.version_id,
        file.rows,
        file.partial_rows,
        file.invalid_rows,
        file.size_bytes,
        file.stats,
    )


def _name(file: StagedFile) -> str:
    return full_name(file.database, file.table)


def _left_out(file: StagedFile, damage: str | None) -> Failure:
    """Rows that the decoder itself excluded: all others of the table are published, and the verdict reports these."""
    if damage is not None:
        return damaged_file(_name(file), file.url, file.rows, damage)
    message = f"{counted(file.rows, 'row is', 'rows are')} in quarantine: {file.why.message}"
    return Failure.warning(_name(file), ASIDE, message, file.rows, (file.reason,))


def unlogged_changes(plan: RunPlan, interval: Interval) -> list[Failure]:
    """Changes of rows that have no row event: a replay of the table must consider them."""
    removed = [
        Failure.warning(
            removal.table,
            "rows_go_by_deletes",
            f"`{removal.statement}` at {removal.gtid or 'a transaction without GTID'}: "
            "rows that it removed are gone without delete rows",
        )
        for removal in plan.removed
        if removal.interval == interval.start
    ]
    logged = [
        Failure.warning(statement.table_name or "", "rows_change_by_row_events", _of_statement(statement))
        for statement in plan.statements
        if statement.interval == interval.start
    ]
    return [*removed, *logged]


def _of_statement(statement: StatementLogged) -> str:
    if statement.binlog_file.startswith(f"{COMMITS}."):
        # Of a sink: the text says what is missing.
        return statement.statement
    return (
        f"`{statement.statement}` at {statement.gtid or f'{statement.binlog_file}:{statement.binlog_pos}'} was "
        "logged as a statement: the binlog does not hold the rows that it changed"
    )


def _missing_transactions(plan: RunPlan, interval: Interval) -> list[Failure]:
    """Compares the marks of an interval: between them, every GTID is a transaction with an ordinal of its own.

    More GTIDs than ordinals mean transactions that the server has executed and the stream has not. Fewer are no sign of
    anything: anonymous transactions have an ordinal and no GTID. Those have to lie one after the other instead. Numbers
    of MariaDB may jump, and prove nothing here: landing compares where each transaction ends and the next one begins.
    """
    broken_at = plan.breaks.get(str(interval.start))
    if broken_at:
        return [_missing(f"the binlog does not go on at {broken_at} where the transaction before it ends")]
    before = plan.executed_before.get(str(interval.start))
    if before is None:
        # A plan of an older version, which knew that of its first interval alone.
        return []
    executed = parse_executed(interval.gtid_executed) - parse_executed(before)
    landed = interval.last_seq - interval.after_seq
    if executed.count() <= landed or isinstance(executed, DomainSet):
        return []
    return [
        _missing(
            f"the interval's marks differ by {executed.count()} GTIDs, "
            f"but only {landed} transactions have landed between them"
        )
    ]


def _missing(message: str) -> Failure:
    return Failure.error("", "no_transaction_is_missing", message)


def _report(source: str, run: str, verdicts: Sequence[IntervalVerdict], docs: str) -> CheckReport:
    failures = [failure for verdict in verdicts for failure in verdict.failures]
    errors = [failure for failure in failures if failure.severity is Severity.ERROR]
    warnings = [failure for failure in failures if failure.severity is not Severity.ERROR]
    tables = [table for verdict in verdicts for table in verdict.tables]
    return CheckReport(
        source=source,
        run=run,
        intervals=len(verdicts),
        tables=len({table.table for table in tables}),
        rows=sum(table.rows for table in tables),
        checks=sum(verdict.checks for verdict in verdicts),
        errors=len(errors),
        warnings=len(warnings),
        messages=tuple(_sentence(failure) for failure in (*errors, *warnings)[:MOST_MESSAGES]),
        docs=docs,
    )


def _sentence(failure: Failure) -> str:
    text = f"{failure.table}: {failure.message}" if failure.table else failure.message
    return text if len(text) <= MESSAGE_LENGTH else f"{text[: MESSAGE_LENGTH - 3]}..."
