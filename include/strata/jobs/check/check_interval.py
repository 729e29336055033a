"""Judges what a run has staged, before anybody reads it: verdict, Data Docs, quarantine.
Not here: the checks (`checks/`), publishing (`jobs/publish/publish_interval.py`), the Spark session (`spark_jobs/`)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from strata.checks.own import own_rules
from strata.checks.rules import StreamFacts
from strata.checks.run import JudgedFile, TableSubject, damaged_file, judge_interval
from strata.checks.suite import Judge
from strata.checks.verdict import Failure, Severity
from strata.errors import ChecksFailedError
from strata.gtid.sets import GtidSet
from strata.jobs.run.run_folder import read_plan, read_staged, run_folder, write_verdicts
from strata.schema.model.definition import TableName, definition_from_json
from strata.tables.layout import interval_key
from strata.tables.pinned import find_damage
from strata.tables.quarantine import put_in_quarantine
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata.checks.verdict import IntervalVerdict
    from strata.jobs.run.run_folder import Decoded
    from strata.jobs.run.run_plan import RunPlan
    from strata.jobs.run.specs import Interval
    from strata.schema.model.definition import TableDefinition
    from strata.tables.write import StagedFile

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
        Usage: The run has not been decoded, or is published and its files were cleared.
        LakeUnavailableError: The storage does not answer.
        SettingsError: A file of users' own expectations has mistakes.
    """
    folder = run_folder(lake, source, run)
    plan = read_plan(folder)
    decoded = read_staged(folder)
    judge = Judge()
    verdicts = []
    for interval in plan.intervals:
        unreadable = decoded.unreadable(interval.start)
        damage = find_damage([file for file in decoded.files if file.interval == interval.start])
        verdict = judge_interval(
            judge,
            lambda urls: spark.read.parquet(*map(spark_url, urls)),
            source,
            interval.start,
            interval_key(interval.start),
            _subjects(plan, interval, decoded, own_expectations, damage),
            [
                *_missing_transactions(plan, interval),
                *_undecoded(decoded, interval),
                *told_of_interval(plan, interval),
                *(_left_out(file, damage.get(file.url)) for file in unreadable),
            ],
        )
        verdicts.append(verdict)
        failed = [file for file in decoded.publishable(interval.start) if verdict.failures_of(str(file.name))]
        # What is not what was decoded is nobody's row: there is nothing to keep of it.
        kept = [file for file in (*failed, *unreadable) if file.url not in damage]
        if kept:
            put_in_quarantine(lake, source, run, interval.start, kept, verdict.to_json())
    docs = judge.write_docs(folder.join(DOCS)) if decoded.files else ""
    write_verdicts(folder, verdicts)
    return _report(source, run, verdicts, docs)


def _undecoded(decoded: Decoded, interval: Interval) -> list[Failure]:
    """Tables of which a slice cannot be decoded: none of their rows of the interval are published."""
    return [
        Failure(
            table=f"{database}.{table}",
            check="slices_can_be_decoded",
            column=None,
            severity=Severity.ERROR,
            message=error.message,
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
    plan: RunPlan, interval: Interval, decoded: Decoded, own_expectations: str | None, damage: Mapping[str, str]
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
            # An interval owns the transactions behind its first mark, up to and with its last.
            seqs = (interval.first_seq + 1, interval.last_seq)
            subjects.append(
                TableSubject(
                    table=name,
                    files=tuple(
                        _judged(file, damage.get(file.url)) for file in files if (file.database, file.table) == key
                    ),
                    facts=StreamFacts(table.rows - left_out[key], *seqs, tuple(sorted(versions))),
                    definitions=versions,
                    own=tuple(own_rules(own_expectations, name)),
                )
            )
    return subjects


def _judged(file: StagedFile, damage: str | None) -> JudgedFile:
    return JudgedFile(file.url, file.digest, file.version_id, file.rows, file.partial_rows, file.invalid_rows, damage)


def _left_out(file: StagedFile, damage: str | None) -> Failure:
    """Rows that the decoder itself put aside: all others of the table are published, and the verdict says so."""
    if damage is not None:
        return damaged_file(str(file.name), file.url, file.rows, damage)
    return Failure(
        table=str(file.name),
        check="rows_can_be_decoded",
        column=None,
        severity=Severity.WARNING,
        message=f"{file.rows} rows are in quarantine: {file.why.message}",
        unexpected_rows=file.rows,
        examples=(file.reason,),
    )


def told_of_interval(plan: RunPlan, interval: Interval) -> list[Failure]:
    """Changes of rows that no row event tells of: whoever replays a table has to mind them."""
    removed = [
        _untold(
            one.table,
            "rows_go_by_deletes",
            f"`{one.statement}` at {one.gtid or 'a transaction without GTID'}: "
            "rows that it removed are gone without delete rows",
        )
        for one in plan.removed
        if one.interval == interval.start
    ]
    logged = [
        _untold(
            one.told or "",
            "rows_change_by_row_events",
            f"`{one.statement}` at {one.gtid or f'{one.binlog_file}:{one.binlog_pos}'} was logged as a statement: "
            "the binlog does not hold the rows that it changed",
        )
        for one in plan.statements
        if one.interval == interval.start
    ]
    return [*removed, *logged]


def _untold(table: str, check: str, message: str) -> Failure:
    return Failure(table=table, check=check, column=None, severity=Severity.WARNING, message=message)


def _missing_transactions(plan: RunPlan, interval: Interval) -> list[Failure]:
    """Compares the marks of an interval: between them, every GTID is a transaction with an ordinal of its own.

    More GTIDs than ordinals mean transactions that the server has executed and the stream has not. Fewer are no sign of
    anything: anonymous transactions have an ordinal and no GTID. Those have to lie one behind the other instead.
    """
    broken_at = plan.breaks.get(str(interval.start))
    if broken_at:
        return [_missing(f"the binlog does not go on at {broken_at} where the transaction before it ends")]
    before = plan.executed_before.get(str(interval.start))
    if before is None:
        # A plan of an older version, which knew that of its first interval alone.
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
