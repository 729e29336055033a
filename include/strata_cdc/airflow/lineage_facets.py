"""Lineage as OpenLineage writes it: datasets by the names of its standard, with its facets.
Not here: the facts (`strata_cdc.ops.lineage`), whether and when they are sent (`lineage.py`). This file is imported
only if OpenLineage's client is installed.

| dataset | namespace | name |
|---|---|---|
| a table on the server | `mysql://HOST:PORT` | `DATABASE.TABLE` |
| a change table, a mirror | `file`, or `s3://BUCKET` | its path |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from openlineage.client import facet_v2 as facets
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.naming.dataset import LocalFileSystem, MySQL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openlineage.client.naming.dataset import DatasetNaming

    from strata_cdc.config.settings import Source
    from strata_cdc.ops.lineage.facts import CameFrom, CheckFact, Field, MadeVersion, MirrorPart, TableFacts
    from strata_cdc.schema.model.definition import TableName

_DIRECT = facets.column_lineage_dataset.Transformation(type="DIRECT", subtype="IDENTITY")
_MOST_DATASETS = 500
"""In one event: a receiver may refuse larger ones."""


class EventLineage(NamedTuple):
    """The datasets of one event."""

    inputs: list[InputDataset]
    outputs: list[OutputDataset]


class _Id(NamedTuple):
    """A dataset."""

    namespace: str
    name: str

    @classmethod
    def from_naming(cls, naming: DatasetNaming) -> _Id:
        return cls(naming.get_namespace(), naming.get_name())


def _on_server(source: Source, table: TableName) -> _Id:
    if source.is_sink:
        return _in_lake(f"{source.settings.url}/{table.database}/{table.table}")
    address = source.address
    return _Id.from_naming(MySQL(address.host, str(address.port), table.database, table.table))


def _in_lake(url: str) -> _Id:
    """`file` and the path, or the store's bucket and the key, as the standard names them for S3 and its like."""
    parts = urlsplit(url)
    if parts.scheme in {"", "file"}:
        return _Id.from_naming(LocalFileSystem(parts.path))
    return _Id(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))


def published(source: Source, parts: Iterable[TableFacts]) -> EventLineage:
    """Each table as the run read it, with the results of its checks, and the change table if rows were published."""
    lineage = EventLineage([], [])
    for part in parts:
        read = _on_server(source, part.table)
        lineage.inputs.append(
            InputDataset(
                *read,
                facets=_common(read, part.columns, part.gtid_executed),
                inputFacets=_assertions(part.findings),
            )
        )
        if part.delta_version is not None:
            written = _in_lake(part.url)
            lineage.outputs.append(
                OutputDataset(
                    *written,
                    facets=_table(written, part.fields, part.delta_version, _columns(read, part.came_from)),
                    outputFacets={
                        "outputStatistics": facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                            rowCount=part.rows
                        )
                    },
                )
            )
    return lineage


def mirrors(source: Source, parts: Iterable[MirrorPart], *, dumped: bool) -> EventLineage:
    """Each mirror, and the table that it was made from."""
    event = EventLineage([], [])
    for part in parts:
        read = _on_server(source, part.table) if dumped else _in_lake(part.changes_url)
        written = _in_lake(part.url)
        event.inputs.append(InputDataset(*read))
        lineage = _columns(read, part.came_from_server if dumped else part.came_from)
        event.outputs.append(OutputDataset(*written, facets=_table(written, part.fields, part.delta_version, lineage)))
    return event


def versions(source: Source, made: Sequence[MadeVersion]) -> Iterator[EventLineage]:
    """Tables as versions made them, in order: an event has one state of a table."""
    tables: dict[_Id, OutputDataset] = {}
    at: dict[_Id, int] = {}
    for version in made:
        own = _on_server(source, version.table)
        former = _on_server(source, version.former) if version.former else None
        # One statement renames several tables at once.
        is_later = former in tables and at[former] != version.version
        if own in tables or is_later or len(tables) >= _MOST_DATASETS:
            yield EventLineage([], list(tables.values()))
            tables = {}
        tables[own], at[own] = OutputDataset(*own, facets=_facets_of(own, former, version)), version.version
    yield EventLineage([], list(tables.values()))


def _facets_of(own: _Id, former: _Id | None, version: MadeVersion) -> dict[str, facets.DatasetFacet]:
    dataset_facets = _common(own, version.columns, version.gtid_executed)
    if version.change is not None:
        change = facets.lifecycle_state_change_dataset
        before = change.PreviousIdentifier(name=former.name, namespace=former.namespace) if former else None
        dataset_facets["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(
            change.LifecycleStateChange[version.change.name], previousIdentifier=before
        )
    return dataset_facets


def _common(own: _Id, columns: Iterable[Field], version: str) -> dict[str, facets.DatasetFacet]:
    """Facets of every dataset: its location, its columns, the moment that it describes."""
    dataset_facets: dict[str, facets.DatasetFacet] = {
        "dataSource": facets.datasource_dataset.DatasourceDatasetFacet(name=own.namespace, uri=own.namespace)
    }
    schema = facets.schema_dataset
    fields = [
        schema.SchemaDatasetFacetFields(
            name=column.name, type=column.type, description=column.comment or None, ordinal_position=number
        )
        for number, column in enumerate(columns, 1)
    ]
    if fields:
        dataset_facets["schema"] = schema.SchemaDatasetFacet(fields=fields)
    if version:
        dataset_facets["version"] = facets.dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version)
    return dataset_facets


def _table(
    own: _Id, fields: Iterable[Field], version: int, lineage: facets.DatasetFacet | None
) -> dict[str, facets.DatasetFacet]:
    """Facets of a Delta table."""
    dataset_facets = _common(own, fields, str(version))
    dataset_facets["storage"] = facets.storage_dataset.StorageDatasetFacet(storageLayer="delta", fileFormat="parquet")
    if lineage is not None:
        dataset_facets["columnLineage"] = lineage
    return dataset_facets


def _columns(read: _Id, came_from: CameFrom) -> facets.DatasetFacet | None:
    lineage = facets.column_lineage_dataset
    fields = {
        name: lineage.Fields(
            inputFields=[
                lineage.InputField(namespace=read.namespace, name=read.name, field=origin, transformations=[_DIRECT])
                for origin in origins
            ]
        )
        for name, origins in came_from.items()
    }
    return lineage.ColumnLineageDatasetFacet(fields=fields) if fields else None


def _assertions(findings: Iterable[CheckFact]) -> dict[str, facets.InputDatasetFacet]:
    quality = facets.data_quality_assertions_dataset
    assertions = [
        quality.Assertion(
            assertion=finding.check,
            success=finding.holds,
            column=finding.column,
            severity="warn" if finding.severity == "warning" else finding.severity,
            description=finding.because,
            actual=None if finding.rows is None else f"{finding.rows} rows break it",
        )
        for finding in findings
    ]
    return (
        {"dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet(assertions=assertions)}
        if assertions
        else {}
    )
