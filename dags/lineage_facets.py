"""Lineage as OpenLineage writes it: datasets by the names of its standard, with its facets.
Not here: what is told (`strata_cdc.ops.lineage`), whether and by whom (`lineage.py`); without its client this is not
imported.

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
"""In one event: a receiver may refuse what is too large."""


class EventLineage(NamedTuple):
    """What one event tells of."""

    inputs: list[InputDataset]
    outputs: list[OutputDataset]


class _Id(NamedTuple):
    """A dataset."""

    namespace: str
    name: str

    @classmethod
    def of(cls, naming: DatasetNaming) -> _Id:
        return cls(naming.get_namespace(), naming.get_name())


def _on_server(source: Source, table: TableName) -> _Id:
    address = source.address
    return _Id.of(MySQL(address.host, str(address.port), table.database, table.table))


def _in_lake(url: str) -> _Id:
    """`file` and the path, or the store's bucket and the key, as the standard names them for S3 and its like."""
    parts = urlsplit(url)
    if parts.scheme in {"", "file"}:
        return _Id.of(LocalFileSystem(parts.path))
    return _Id(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))


def published(source: Source, parts: Iterable[TableFacts]) -> EventLineage:
    """Each table as the run read it, with what its checks found, and the change table if rows were published."""
    found = EventLineage([], [])
    for part in parts:
        read = _on_server(source, part.table)
        found.inputs.append(
            InputDataset(
                *read,
                facets=_common(read, part.columns, part.gtid_executed),
                inputFacets=_assertions(part.findings),
            )
        )
        if part.delta_version is not None:
            written = _in_lake(part.url)
            found.outputs.append(
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
    return found


def mirrors(source: Source, parts: Iterable[MirrorPart], *, dumped: bool) -> EventLineage:
    """Each mirror, and what it was made of."""
    found = EventLineage([], [])
    for part in parts:
        read = _on_server(source, part.table) if dumped else _in_lake(part.changes_url)
        written = _in_lake(part.url)
        found.inputs.append(InputDataset(*read))
        lineage = _columns(read, part.came_from_server if dumped else part.came_from)
        found.outputs.append(OutputDataset(*written, facets=_table(written, part.fields, part.delta_version, lineage)))
    return found


def versions(source: Source, made: Sequence[MadeVersion]) -> Iterator[EventLineage]:
    """Tables as versions made them, in order: an event has one state of a table."""
    found: dict[_Id, OutputDataset] = {}
    at: dict[_Id, int] = {}
    for version in made:
        own = _on_server(source, version.table)
        former = _on_server(source, version.former) if version.former else None
        # One statement renames several tables at once.
        is_later = former in found and at[former] != version.version
        if own in found or is_later or len(found) >= _MOST_DATASETS:
            yield EventLineage([], list(found.values()))
            found = {}
        found[own], at[own] = OutputDataset(*own, facets=_facets_of(own, former, version)), version.version
    yield EventLineage([], list(found.values()))


def _facets_of(own: _Id, former: _Id | None, version: MadeVersion) -> dict[str, facets.DatasetFacet]:
    found = _common(own, version.columns, version.gtid_executed)
    if version.change is not None:
        change = facets.lifecycle_state_change_dataset
        before = change.PreviousIdentifier(name=former.name, namespace=former.namespace) if former else None
        found["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(
            change.LifecycleStateChange[version.change.name], previousIdentifier=before
        )
    return found


def _common(own: _Id, columns: Iterable[Field], version: str) -> dict[str, facets.DatasetFacet]:
    """Of every dataset: where it is, its columns, the moment of which it speaks."""
    found: dict[str, facets.DatasetFacet] = {
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
        found["schema"] = schema.SchemaDatasetFacet(fields=fields)
    if version:
        found["version"] = facets.dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version)
    return found


def _table(
    own: _Id, fields: Iterable[Field], version: int, lineage: facets.DatasetFacet | None
) -> dict[str, facets.DatasetFacet]:
    """Of a Delta table."""
    found = _common(own, fields, str(version))
    found["storage"] = facets.storage_dataset.StorageDatasetFacet(storageLayer="delta", fileFormat="parquet")
    if lineage is not None:
        found["columnLineage"] = lineage
    return found


def _columns(read: _Id, came_from: CameFrom) -> facets.DatasetFacet | None:
    lineage = facets.column_lineage_dataset
    fields = {
        name: lineage.Fields(
            inputFields=[
                lineage.InputField(namespace=read.namespace, name=read.name, field=one, transformations=[_DIRECT])
                for one in origins
            ]
        )
        for name, origins in came_from.items()
    }
    return lineage.ColumnLineageDatasetFacet(fields=fields) if fields else None


def _assertions(findings: Iterable[CheckFact]) -> dict[str, facets.InputDatasetFacet]:
    quality = facets.data_quality_assertions_dataset
    found = [
        quality.Assertion(
            assertion=one.check,
            success=one.holds,
            column=one.column,
            severity="warn" if one.severity == "warning" else one.severity,
            description=one.because,
            actual=None if one.rows is None else f"{one.rows} rows break it",
        )
        for one in findings
    ]
    return {"dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet(assertions=found)} if found else {}
