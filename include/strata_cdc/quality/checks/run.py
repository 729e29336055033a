"""The checks of one interval: each table judged by an engine, and a verdict over all.
Not here: the engine (`pass_engine.py`), the rules (`rules.py`), storing the verdict
(`quality/check_step/check_interval.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.counted import counted
from strata_cdc.errors import SettingsError
from strata_cdc.quality.checks.file_bounds import CHECK as TRUE_STATISTICS
from strata_cdc.quality.checks.own_columns import why_not
from strata_cdc.quality.checks.subject import applies_to
from strata_cdc.runs.verdict import Failure, IntervalVerdict, TableVerdict, staged_digest
from strata_cdc.unforeseen import may_pass, what_happened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.quality.checks.earlier_images import ComparedImages
    from strata_cdc.quality.checks.pass_engine import PassEngine
    from strata_cdc.quality.checks.profile import FileProfile
    from strata_cdc.quality.checks.rules import Rule
    from strata_cdc.quality.checks.subject import JudgedFile, TableSubject

OF_FILES = frozenset({"files_are_those_that_were_decoded", "columns_are_those_of_the_version", TRUE_STATISTICS})
"""Checks of the files themselves: where one fails, readers could not rely on what they read, whatever the rows are."""
FILE_CHECKS = 2
"""Those of a table that are about its files as such: their order and their statistics."""


def judge_interval(
    engine: PassEngine,
    source: str,
    interval: int,
    label: str,
    subjects: Sequence[TableSubject],
    stream: Sequence[Failure] = (),
    earlier: Mapping[str, ComparedImages] | None = None,
) -> IntervalVerdict:
    """Runs all checks of an interval.

    Args:
        engine: Judges each table.
        interval: Start of the interval (microseconds UTC).
        label: The interval's name in the Data Docs.
        subjects: Every table that has staged files, and every table that the plan expects rows of.
        stream: What is known to be wrong with the interval before any row is read.
        earlier: By table, what came of its images against those of earlier intervals.
    """
    failures = list(stream)
    verdicts: list[TableVerdict] = []
    for subject in sorted(subjects, key=lambda subject: subject.table):
        if subject.files:
            verdicts.append(_judge(engine, label, subject, (earlier or {}).get(subject.name)))
        elif subject.facts.rows:
            failures.append(_nothing_staged(subject))
    digest = staged_digest((str(subject.table), file.digest) for subject in subjects for file in subject.files)
    return IntervalVerdict(source, interval, digest, tuple(verdicts), tuple(failures))


def _judge(engine: PassEngine, label: str, subject: TableSubject, earlier: ComparedImages | None) -> TableVerdict:
    """As `judge_table`; an exception that nobody foresaw fails the one table."""
    try:
        return judge_table(engine, label, subject, earlier)
    except Exception as error:
        if may_pass(error) or isinstance(error, SettingsError):
            raise
        return _verdict(subject, 1, [_not_judged(subject.name, what_happened(error))])


def _not_judged(table: str, why: str) -> Failure:
    return Failure.error(table, "table_can_be_judged", f"the table's checks ended: {why}")


def judge_table(
    engine: PassEngine, label: str, subject: TableSubject, earlier: ComparedImages | None = None
) -> TableVerdict:
    """Runs all checks of one table.

    Files that are not what was decoded are judged by nothing else: they may not even be readable.
    """
    profiles = engine.profiles(subject)
    damaged = [
        damaged_file(subject.name, file.url, file.rows, damage)
        for file in subject.files
        if (damage := profiles[file.url].damage) is not None
    ]
    if damaged:
        return _verdict(subject, len(subject.files), damaged)
    errors = [error for file in subject.files if (error := profiles[file.url].error) is not None]
    if errors:
        return _verdict(subject, len(subject.files), [_not_judged(subject.name, errors[0])])
    columns = {version: _columns_of(subject.files_of(version), profiles) for version in subject.versions}
    unlike = [_unlike(subject, version, profiles) for version, names in columns.items() if names is None]
    checks, failures = engine.judge(subject, label, columns)
    never = _never_applied(subject, [version for version, names in columns.items() if names is not None])
    failures = [*failures, *unlike, *_faults(subject, profiles), *never]
    if earlier is not None and earlier.rows:
        checks += 1
        failures += [failure] if (failure := earlier.failure(subject)) is not None else []
    return _verdict(subject, checks + len(unlike) + FILE_CHECKS + len(never), failures)


def _verdict(subject: TableSubject, checks: int, failures: Sequence[Failure]) -> TableVerdict:
    rows = sum(file.rows for file in subject.files)
    return TableVerdict(subject.name, rows, subject.versions, checks, tuple(failures))


def damaged_file(table: str, url: str, rows: int, damage: str) -> Failure:
    """The failure of a staged file that is not what was decoded."""
    message = f"a staged file {damage}: decode the run again, which makes it anew ({url})"
    return Failure.error(table, "files_are_those_that_were_decoded", message, rows)


def _columns_of(files: Sequence[JudgedFile], profiles: Mapping[str, FileProfile]) -> tuple[str, ...] | None:
    """The columns of a version's files; None if they are not its own, or not the same in all."""
    column_sets = {profiles[file.url].columns for file in files}
    if len(column_sets) > 1 or any(profiles[file.url].is_unlike for file in files):
        return None
    return column_sets.pop()


def _unlike(subject: TableSubject, version: int, profiles: Mapping[str, FileProfile]) -> Failure:
    columns = profiles[subject.files_of(version)[0].url].columns
    message = f"the staged columns {', '.join(columns)} are not those of schema version {version}"
    return Failure.error(subject.name, "columns_are_those_of_the_version", message)


def _faults(subject: TableSubject, profiles: Mapping[str, FileProfile]) -> list[Failure]:
    return [
        Failure.error(subject.name, fault.check, f"{fault.message} ({file.url})", fault.rows)
        for file in subject.files
        for fault in profiles[file.url].faults
    ]


def _nothing_staged(subject: TableSubject) -> Failure:
    message = f"the row events of the binlog count {counted(subject.facts.rows, 'row')}, none was decoded"
    return Failure.error(subject.name, "rows_were_decoded", message, subject.facts.rows)


def _never_applied(subject: TableSubject, versions: Sequence[int]) -> list[Failure]:
    """Users' rules that are about rows of the interval, and of which no version has the columns."""
    failures = []
    for rule in subject.own:
        held = [version for version in versions if subject.past.holds(rule, version)]
        if (held or not versions) and not any(applies_to(subject, rule, version) for version in held):
            failures.append(_no_such_column(subject, rule, held))
    return failures


def _no_such_column(subject: TableSubject, rule: Rule, versions: Sequence[int]) -> Failure:
    where = f" ({rule.location})" if rule.location else ""
    message = f"{why_not(rule, subject.past, versions)}{where}"
    return Failure(subject.name, rule.expectation, rule.column, rule.severity, message)
