"""What a run has read and written of each table, for lineage tools: columns as of the version that decoded the rows,
which column came from which, what the checks found, which tables were emptied.
Not here: the form that OpenLineage gives it (`airflow/lineage_facets.py`), DDL (`versions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.errors import DdlError
from strata_cdc.mirrors.layout import mirrored_tables
from strata_cdc.mirrors.table import Mirror
from strata_cdc.ops.lineage.facts import (
    CameFrom,
    CheckFact,
    Field,
    LifecycleChange,
    MadeVersion,
    MirrorPart,
    TableFacts,
)
from strata_cdc.quality.check_step.data_docs import read_judged
from strata_cdc.runs.run_folder import read_plan, read_verdicts, run_folder
from strata_cdc.schema.ddl.changes import RemoveRows, RowsGone
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.tables.continued import place_columns, plain_name
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.layout import METADATA, column_name, table_url
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.outputs import OUTPUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from strata_cdc.files.storage import Folder
    from strata_cdc.pipeline.publish.report import PublishedTable, PublishReport
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.specs import RowsRemoved
    from strata_cdc.runs.verdict import IntervalVerdict
    from strata_cdc.schema.model.definition import TableDefinition


def describe_published(lake: str, report: PublishReport) -> list[TableFacts]:
    """What a run has published or withheld, by table.

    Raises:
        Usage: There is no such run.
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: A file of the run is not whole.
        LostTableError: Of a change table something was deleted, or its log is not whole.
    """
    folder = run_folder(lake, report.source, report.run)
    plan = read_plan(folder)
    # A table that was empty and stays empty is not reported.
    news = [published for published in report.tables if published.rows or published.changed]
    named = {published.table for published in news} | {withheld.table for withheld in report.withheld}
    tables = {planned.name: TableName(planned.database, planned.table) for planned in plan.tables if planned.database}
    run = _RunFacts(folder, plan)
    return [
        run.part(lake, table, [published for published in news if published.table == name])
        for name, table in sorted(tables.items())
        if name in named
    ]


def describe_emptied(lake: str, report: PublishReport) -> list[MadeVersion]:
    """The tables that lost all rows by DDL in the intervals of a run, in stream order.

    Raises:
        Usage: There is no such run.
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: The run's plan is not whole.
    """
    plan = read_plan(run_folder(lake, report.source, report.run))
    executed = {interval.start: interval.gtid_executed for interval in plan.intervals}
    return [
        MadeVersion(0, name, (), LifecycleChange.TRUNCATE, None, executed.get(removal.interval, ""))
        for removal in plan.removed
        for name in _emptied(removal)
    ]


def _emptied(removed: RowsRemoved) -> list[TableName]:
    """The table, if the statement removed all of its rows; none if that was cut and cannot be read."""
    names = removed.table.split(".")
    # Names may have dots: the statement shows where the database ends.
    databases = [".".join(names[:end]) for end in range(1, len(names))]
    try:
        changes = [change for name in databases for change in read_ddl(removed.statement, DdlContext(name))]
    except DdlError:
        return []
    removals = [change for change in changes if isinstance(change, RemoveRows) and change.gone is RowsGone.ALL]
    return sorted({name for removal in removals for name in removal.names if str(name) == removed.table})


class _RunFacts:
    """What is known from a run's folder."""

    def __init__(self, folder: Folder, plan: RunPlan) -> None:
        self._plan = plan
        self._verdicts = read_verdicts(folder)
        self._judged = read_judged(folder).suites

    def part(self, lake: str, table: TableName, published: Sequence[PublishedTable]) -> TableFacts:
        name = str(table)
        versions = {version for verdict in self._verdicts.values() for version in _versions(verdict, name)}
        versions.update(version for commit in published for version in commit.schema_versions)
        definitions = self._definitions(table, versions)
        url = table_url(lake, self._plan.source, table)
        newest = max((commit.delta_version for commit in published), default=None)
        written = open_changes(lake, self._plan.source, table, newest) if published else None
        columns = written.columns if written else ()
        return TableFacts(
            table=table,
            columns=_described(definitions[-1]) if definitions else (),
            versions=tuple(sorted(versions)),
            gtid_executed=self._plan.intervals[-1].gtid_executed if self._plan.intervals else "",
            rows=sum(commit.rows for commit in published),
            url=url,
            delta_version=newest,
            fields=tuple(Field(field.name, str(field.type)) for field in columns),
            came_from=_came_from(columns, definitions),
            findings=tuple(self._findings(name)),
        )

    def _definitions(self, table: TableName, versions: Iterable[int]) -> list[TableDefinition]:
        """Of these versions, the newest last."""
        definitions = {
            planned.version_id: planned.definition
            for planned in self._plan.versions
            if (planned.database, planned.table) == (table.database, table.table)
        }
        return [definition_from_json(definitions[version]) for version in sorted(versions) if version in definitions]

    def _findings(self, name: str) -> Iterator[CheckFact]:
        """Each check once, whatever number of versions and intervals it was made for; failures of the stream as well,
        for they are about each table."""
        checks: dict[tuple[str, str | None, str], CheckFact] = {}
        for check in self._each(name):
            key = check.check, check.column, check.because
            known = checks.setdefault(key, check)
            if known.holds and not check.holds:
                checks[key] = check
        yield from checks.values()

    def _each(self, name: str) -> Iterator[CheckFact]:
        for suite in self._judged:
            for outcome in suite.rules if suite.table == name else ():
                rule, broken = outcome.rule, outcome.found.unexpected
                yield CheckFact(
                    rule.expectation, rule.column, outcome.success, str(rule.severity), rule.because, broken
                )
        for verdict in self._verdicts.values():
            for failure in verdict.failures:
                if failure.table in {"", name} and not (failure.table and self._judged):
                    severity = str(failure.severity)
                    rows = failure.unexpected_rows
                    yield CheckFact(failure.check, failure.column, False, severity, failure.message, rows)  # noqa: FBT003


def describe_mirrors(lake: str, source: str, tables: Iterable[str]) -> Iterator[MirrorPart]:
    """The mirrors of some tables (`database.table`) as they are now, of those that have one.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: A mirror is not whole.
        LostTableError: The log of a change table is not whole.
    """
    wanted = set(tables)
    for table in mirrored_tables(lake, source):
        mirror = Mirror.open(lake, source, table) if str(table) in wanted else None
        if mirror is not None:
            yield _of_mirror(lake, source, mirror)


def _of_mirror(lake: str, source: str, mirror: Mirror) -> MirrorPart:
    url = table_url(lake, source, mirror.table)
    changes = open_changes(lake, source, mirror.table)
    own = [column_name(column.name) for column in mirror.definition.columns]
    return MirrorPart(
        table=mirror.table,
        url=mirror.url,
        delta_version=mirror.snapshot.version,
        fields=tuple(Field(field.name, str(field.type)) for field in mirror.schema),
        changes_url=url,
        came_from=_continued(own, changes.columns) if changes else {},
        came_from_server={name: (column.name,) for name, column in zip(own, mirror.definition.columns, strict=True)},
    )


def _continued(names: Iterable[str], columns: Iterable[pa.Field]) -> CameFrom:
    """A column that has had several types is several columns of the change table."""
    fields: dict[str, list[str]] = {}
    for field in columns:
        fields.setdefault(plain_name(field), []).append(field.name)
    return {name: tuple(fields[name]) for name in names if name in fields}


def _versions(verdict: IntervalVerdict, name: str) -> Iterator[int]:
    for table in verdict.tables:
        if table.table == name:
            yield from table.versions


def _described(definition: TableDefinition) -> tuple[Field, ...]:
    return tuple(Field(column.name, column.column_type, column.comment) for column in definition.columns)


def _came_from(columns: Iterable[pa.Field], definitions: Sequence[TableDefinition]) -> CameFrom:
    """Which columns of the server's table the columns of the change table take, under all versions of a run."""
    columns = list(columns)
    if not columns:
        return {}
    sources: dict[str, dict[str, None]] = {}
    for definition in definitions:
        incoming = OUTPUT.stored(state_schema(definition))
        names: Mapping[str, str] = place_columns(columns, incoming).names
        for column, field in zip(definition.columns, incoming, strict=True):
            for name in (names.get(field.name, field.name), BEFORE):
                sources.setdefault(name, {})[column.name] = None
    order = [field.name for field in columns if field.name == BEFORE or field.name not in METADATA]
    return {name: tuple(sources[name]) for name in order if name in sources}
