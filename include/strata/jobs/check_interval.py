"""Judges what a run has staged, before anybody reads it: verdict, Data Docs, quarantine.
Not here: the checks (`checks/`), publishing (`publish_interval.py`), the Spark session (`spark_jobs/`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from strata.checks.own import own_rules
from strata.checks.rules import StreamFacts
from strata.checks.run import JudgedFile, TableSubject, judge_interval
from strata.checks.suite import Judge
from strata.checks.verdict import Failure, IntervalVerdict, Severity
from strata.errors import ChecksFailedError
from strata.gtid.sets import GtidSet
from strata.jobs.run_folder import DECODED, VERDICT, read_json, read_plan, run_folder, write_json
from strata.schema.model import TableName, definition_from_json
from strata.tables.layout import interval_key
from strata.tables.quarantine import put_in_quarantine
from strata.tables.write import StagedFile
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.jobs.specs import Interval, RunPlan
    from strata.wire.storage import Folder

DOCS = "docs"
"""Folder of the Data Docs in a run folder."""
MOST_MESSAGES = 5
"""Failures that a report quotes; all of them are in the verdict."""
MESSAGE_LENGTH = 120


class SparkReader(Protocol):
    """What is used of a SparkSession: this library knows no framework."""

    @property
    def read(self) -> Any:
        """The session's DataFrameReader."""


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

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return to_plain(self)

    def raise_if_failed(self) -> None:
        """Lets only what may be published go on.

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
    lake: str, source: str, run: str, spark: SparkReader, own_expectations: str | None = None
) -> CheckReport:
    """Judges every interval of a run, and leaves `verdict.json`, Data Docs and, of what failed, quarantined files.

    Safe to repeat; the verdict is written last and replaces an earlier one.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        run: The run's key; its folder has the plan and what was decoded.
        spark: A SparkSession.
        own_expectations: Folder of users' own expectations.

    Returns:
        The report, also of a failure: `CheckReport.raise_if_failed` decides.

    Raises:
        LakeUnavailableError: The run has not been decoded, or the storage does not answer.
        SettingsError: A file of users' own expectations has mistakes.
    """
    folder = run_folder(lake, source, run)
    plan = read_plan(folder)
    staged = read_staged(folder)
    judge = Judge()
    verdicts = []
    for at, interval in enumerate(plan.intervals):
        of_interval = [file for file in staged if file.interval == interval.start]
        unreadable = [file for file in of_interval if not file.is_publishable]
        verdict = judge_interval(
            judge,
            lambda urls: spark.read.parquet(*map(spark_url, urls)),
            source,
            interval.start,
            interval_key(interval.start),
            _subjects(plan, interval, of_interval, own_expectations),
            [*_missing_transactions(plan, at), *rows_removed(plan, interval), *map(_left_out, unreadable)],
        )
        verdicts.append(verdict)
        kept = unreadable if verdict.passed else of_interval
        if kept:
            put_in_quarantine(lake, source, run, interval.start, kept, verdict.to_json())
    docs = judge.write_docs(folder.join(DOCS)) if staged else ""
    write_verdicts(folder, verdicts)
    return _report(source, run, verdicts, docs)


def read_staged(folder: Folder) -> tuple[StagedFile, ...]:
    """What the run has decoded into files.

    Raises:
        LakeUnavailableError: It has not been decoded.
    """
    return tuple(StagedFile.from_json(file) for file in read_json(folder, DECODED)["files"])


def write_verdicts(folder: Folder, verdicts: Sequence[IntervalVerdict]) -> None:
    """Stores the verdicts of a run.

    Raises:
        LakeUnavailableError: The storage does not take them.
    """
    write_json(folder, VERDICT, {"intervals": [verdict.to_json() for verdict in verdicts]})


def read_verdicts(folder: Folder) -> dict[int, IntervalVerdict]:
    """The verdicts of a run by the start of their interval; none if it has not been checked.

    Raises:
        LakeUnavailableError: The storage does not answer.
        StoreFormatError: A newer version of Strata wrote them.
    """
    if not folder.exists(VERDICT):
        return {}
    found = [IntervalVerdict.from_json(one) for one in read_json(folder, VERDICT)["intervals"]]
    return {verdict.interval: verdict for verdict in found}


def spark_url(url: str) -> str:
    """A path or URL of the lake as Hadoop's file systems call it."""
    if "://" not in url:
        return f"file://{url}"
    return f"s3a://{url.removeprefix('s3://')}" if url.startswith("s3://") else url


def _subjects(
    plan: RunPlan, interval: Interval, files: Sequence[StagedFile], own_expectations: str | None
) -> list[TableSubject]:
    expected = plan.expected_rows.get(str(interval.start), {})
    planned: dict[str, dict[int, Any]] = {}
    for version_id, entry in plan.definitions.items():
        name = TableName(entry["database"], entry["table"])
        planned.setdefault(str(name), {})[int(version_id)] = (name, entry["definition"])
    staged = {str(file.name): file.name for file in files}
    subjects = []
    for text in sorted({*expected, *staged}):
        versions = planned.get(text, {})
        left_out = sum(file.rows for file in files if str(file.name) == text and not file.is_publishable)
        name = staged.get(text) or next((name for name, _ in versions.values()), TableName(*text.split(".", 1)))
        subjects.append(
            TableSubject(
                table=name,
                files=tuple(_judged(file) for file in files if str(file.name) == text and file.is_publishable),
                # An interval owns the transactions behind its first mark, up to and with its last.
                facts=StreamFacts(
                    expected.get(text, 0) - left_out, interval.first_seq + 1, interval.last_seq, tuple(sorted(versions))
                ),
                definitions={version: _definition(stored) for version, (_, stored) in versions.items()},
                own=tuple(own_rules(own_expectations, name)),
            )
        )
    return subjects


def _definition(stored: Any) -> Any:
    return definition_from_json(stored if isinstance(stored, str) else json.dumps(stored))


def _judged(file: StagedFile) -> JudgedFile:
    return JudgedFile(file.url, file.file_name, file.version_id, file.rows, file.partial_rows, file.invalid_rows)


def _left_out(file: StagedFile) -> Failure:
    """Rows that the decoder itself put aside: all others of the table are published, and the verdict says so."""
    error = json.loads(file.reason)
    return Failure(
        table=str(file.name),
        check="rows_can_be_decoded",
        column=None,
        severity=Severity.WARNING,
        message=f"{file.rows} rows are in quarantine: {error['message']}",
        unexpected_rows=file.rows,
        examples=(file.reason,),
    )


def rows_removed(plan: RunPlan, interval: Interval) -> list[Failure]:
    """Rows that went without row events: whoever replays the changes of the table has to drop them, too."""
    return [
        Failure(
            table=removed.table,
            check="rows_go_by_deletes",
            column=None,
            severity=Severity.WARNING,
            message=f"`{removed.statement}` at {removed.gtid or 'a transaction without GTID'}: "
            "rows that it removed are gone without delete rows",
        )
        for removed in plan.removed
        if removed.interval == interval.start
    ]


def _missing_transactions(plan: RunPlan, at: int) -> list[Failure]:
    """Compares the marks of an interval: between them, every GTID is a transaction with an ordinal of its own.

    More GTIDs than ordinals mean transactions that the server has executed and the stream has not. Fewer are no sign of
    anything: anonymous transactions have an ordinal and no GTID. Those have to lie one behind the other instead.
    """
    interval = plan.intervals[at]
    broken_at = plan.breaks.get(str(interval.start))
    if broken_at:
        return [_missing(f"the binlog does not go on at {broken_at} where the transaction before it ends")]
    before = plan.executed_before if at == 0 else plan.intervals[at - 1].gtid_executed
    if at > 0 and plan.intervals[at - 1].last_seq != interval.first_seq:
        # The run leaves out an interval between the two; what had been executed before this one is not in the plan.
        return []
    executed = GtidSet.parse(interval.gtid_executed) - GtidSet.parse(before)
    landed = interval.last_seq - interval.first_seq
    if executed.count() <= landed:
        return []
    return [
        _missing(
            f"the interval's marks differ by {executed.count()} GTIDs, "
            f"but only {landed} transactions have landed between them"
        )
    ]


def _missing(message: str) -> Failure:
    return Failure(table="", check="no_transaction_is_missing", column=None, severity=Severity.ERROR, message=message)


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
