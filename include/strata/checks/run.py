"""The checks of one interval: frames over staged files, rules over frames, a verdict over all.
Not here: the rules (`rules.py`), Great Expectations (`suite.py`), storing the verdict
(`jobs/check/check_interval.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata.checks.conditions import conditioned
from strata.checks.own import columns_of
from strata.checks.rules import (
    IMAGES_AGREE,
    Exemptions,
    StreamFacts,
    frame_column,
    history_rule,
    images_agree_sql,
    rules_of_definition,
    rules_of_stream,
)
from strata.checks.verdict import Failure, IntervalVerdict, Severity, TableVerdict, staged_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata.checks.rules import Rule
    from strata.checks.suite import Judge
    from strata.schema.model.definition import TableDefinition, TableName


class JudgedFile(Struct, frozen=True):
    """A staged file, as the checks see it."""

    url: str
    digest: str
    """Of the bytes that were decoded."""
    version_id: int
    rows: int
    partial_rows: int
    invalid_rows: int
    damage: str | None = None
    """How it differs from what was decoded."""


class TableSubject(Struct, frozen=True):
    """One table of an interval: what was staged of it and what must hold of it."""

    table: TableName
    files: tuple[JudgedFile, ...]
    facts: StreamFacts
    definitions: Mapping[int, TableDefinition]
    """By schema version; at least those of the files."""
    own: tuple[Rule, ...] = ()
    """Users' own rules."""


def judge_interval(
    judge: Judge,
    read: Callable[[Sequence[str]], Any],
    source: str,
    interval: int,
    label: str,
    subjects: Sequence[TableSubject],
    stream: Sequence[Failure] = (),
) -> IntervalVerdict:
    """Runs all checks of an interval.

    Args:
        judge: Runs the suites, and can write the Data Docs afterwards.
        read: From URLs of Parquet files of one schema to a Spark DataFrame.
        source: The source's name.
        interval: Start of the interval (microseconds UTC).
        label: The interval's name in the Data Docs.
        subjects: Every table that has staged files, and every table that the plan expects rows of.
        stream: What is known to be wrong with the interval before any row is read.
    """
    found = list(stream)
    verdicts: list[TableVerdict] = []
    for subject in sorted(subjects, key=lambda subject: subject.table):
        if subject.files:
            verdicts.append(judge_table(judge, read, label, subject))
        elif subject.facts.rows:
            found.append(_nothing_staged(subject))
    digest = staged_digest((str(subject.table), file.digest) for subject in subjects for file in subject.files)
    return IntervalVerdict(source, interval, digest, tuple(verdicts), tuple(found))


def judge_table(judge: Judge, read: Callable[[Sequence[str]], Any], label: str, subject: TableSubject) -> TableVerdict:
    """Runs all checks of one table: a suite for each schema version, and one over what the versions share.

    A table with a single version has a single suite with all of it. Files that are not what was decoded are judged by
    nothing else: they may not even be readable.
    """
    damaged = [file for file in subject.files if file.damage is not None]
    if damaged:
        return _not_as_decoded(subject, damaged)
    versions = tuple(sorted({file.version_id for file in subject.files}))
    staged = {version: read([file.url for file in subject.files if file.version_id == version]) for version in versions}
    frames = {version: _frame(frame) for version, frame in staged.items()}
    failures: list[Failure] = []
    checks = 0
    stream = rules_of_stream(subject.facts)
    if len(versions) > 1:
        frame = _shared_columns(list(frames.values()))
        checks += len(stream)
        failures += judge.run(f"{subject.table} {label}, all versions", str(subject.table), frame, stream)
    for version, frame in frames.items():
        unlike = _unlike(subject, version, staged[version].columns)
        if unlike is not None:
            checks += 1
            failures.append(unlike)
            continue
        rules = [*(stream if len(versions) == 1 else ()), *_rules_of_version(subject, version, staged[version].columns)]
        checks += len(rules)
        failures += judge.run(f"{subject.table} {label}, version {version}", str(subject.table), frame, rules)
    never = [rule for rule in subject.own if not any(_applies(rule, frame.columns) for frame in frames.values())]
    failures += [_no_such_column(subject, rule) for rule in never]
    return TableVerdict(
        table=str(subject.table),
        rows=sum(file.rows for file in subject.files),
        versions=versions,
        checks=checks + len(never),
        failures=tuple(failures),
    )


def _not_as_decoded(subject: TableSubject, damaged: Sequence[JudgedFile]) -> TableVerdict:
    failures = [
        damaged_file(str(subject.table), file.url, file.rows, file.damage)
        for file in damaged
        if file.damage is not None
    ]
    return TableVerdict(
        table=str(subject.table),
        rows=sum(file.rows for file in subject.files),
        versions=tuple(sorted({file.version_id for file in subject.files})),
        checks=len(subject.files),
        failures=tuple(failures),
    )


def damaged_file(table: str, url: str, rows: int, damage: str) -> Failure:
    """The failure of a staged file that is not what was decoded."""
    return Failure(
        table=table,
        check="files_are_those_that_were_decoded",
        column=None,
        severity=Severity.ERROR,
        message=f"a staged file {damage}: decode the run again, which makes it anew ({url})",
        unexpected_rows=rows,
    )


def _rules_of_version(subject: TableSubject, version: int, columns: Sequence[str]) -> list[Rule]:
    files = [file for file in subject.files if file.version_id == version]
    exempt = Exemptions(sum(file.partial_rows for file in files), sum(file.invalid_rows for file in files))
    definition = subject.definitions[version]
    names = _published_names(definition, columns)
    rules = rules_of_definition(definition, names, exempt)
    # Where images lack columns, nothing can be said of what the last one left.
    if definition.primary_key and not exempt.partial_rows:
        rules.append(history_rule(definition, names))
    own = (
        conditioned(rule, subject.table, definition, subject.definitions, names, exempt)
        for rule in subject.own
        if _applies(rule, columns)
    )
    return [*rules, *(rule for rule in own if rule is not None)]


def _applies(rule: Rule, columns: Sequence[str]) -> bool:
    """Users' rules hold for the rows of the versions that have the columns they name."""
    return columns_of(rule) <= set(columns)


def _unlike(subject: TableSubject, version: int, columns: Sequence[str]) -> Failure | None:
    """Staged columns that are not those of the schema version that is said to have decoded them."""
    definition = subject.definitions.get(version)
    if definition is not None:
        names = _published_names(definition, columns)
        # Some have more underscores in front (`tables/layout.py`).
        if len(names) == len(definition.columns) and all(
            published.lstrip("_") == name.lstrip("_") for name, published in names.items()
        ):
            return None
    return Failure(
        table=str(subject.table),
        check="columns_are_those_of_the_version",
        column=None,
        severity=Severity.ERROR,
        message=f"the staged columns {', '.join(columns)} are not those of schema version {version}",
    )


def _published_names(definition: TableDefinition, columns: Sequence[str]) -> dict[str, str]:
    """A staged file begins with the columns of its version, in order."""
    own = columns[: columns.index("_before")]
    return {column.name: name for column, name in zip(definition.columns, own, strict=False)}


def _frame(frame: Any) -> Any:
    """The judged frame, not cached: the few jobs that read it want few columns each, and reading those from Parquet
    costs less than keeping all (8 against 11 seconds of CPU for 100,000 rows on a busy machine, Spark 4.3)."""
    # A dot in a name would be read as a field of a struct, by Great Expectations as by Spark.
    columns = [f"`{name.replace('`', '``')}` AS `{frame_column(name)}`" for name in frame.columns]
    return frame.selectExpr(*columns, f"{images_agree_sql()} AS {IMAGES_AGREE}")


def _shared_columns(frames: Sequence[Any]) -> Any:
    """The rows of all versions with the columns that do not depend on one."""
    shared = ["_op", "_gtid", "_seq", "_row", "_committed_at", "_binlog_file", "_schema_version", "_invalid"]
    first, *rest = [frame.select(*shared, "_interval", IMAGES_AGREE) for frame in frames]
    for frame in rest:
        first = first.unionByName(frame)
    return first


def _nothing_staged(subject: TableSubject) -> Failure:
    return Failure(
        table=str(subject.table),
        check="rows_were_decoded",
        column=None,
        severity=Severity.ERROR,
        message=f"the row events of the binlog count {subject.facts.rows} rows, none was decoded",
        unexpected_rows=subject.facts.rows,
    )


def _no_such_column(subject: TableSubject, rule: Rule) -> Failure:
    return Failure(
        table=str(subject.table),
        check=rule.expectation,
        column=rule.column,
        severity=rule.severity,
        message=f"no version of the table in this interval has the columns {', '.join(sorted(columns_of(rule)))}",
    )
