"""`spark.read.format("strata")`: the landed changes of a table, in any Spark session, decoded by Spark's tasks with the
schema that was true.
Not here: which slices (`pipeline/plan/landed_range.py`), in which columns (`tables/range_rows.py`).

Conditions are Spark's. Spark 4.3 keeps a reader that evaluates some itself (`pushFilters`) for its frame, and a later
query without them gets the filtered rows.

The data source runs in Python processes of Spark's driver (with Spark Connect, of the server), which read the settings;
its tasks read segments from the lake, and need nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from strata_cdc.changes.binlog_changes import read_slice
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.config.settings import SETTINGS_VARIABLE, TEXT_VARIABLE, connection_variable, load_settings
from strata_cdc.errors import Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.past.moment import find_moment, point_of
from strata_cdc.pipeline.plan.landed_range import range_definitions, range_slices, tracked_until
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.tables.layout import own_name
from strata_cdc.tables.range_rows import in_range_columns, own_columns, range_schema, some_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    import sqlalchemy as sa
    from pyspark.sql.types import StructType

    from strata_cdc.config.settings import Source
    from strata_cdc.runs.run_plan import PlannedSlice

_NOWHERE = "mysql://nobody@server.invalid:3306/"
OPTIONS = ("settings", "source", "table", "since", "until", "columns")


class StrataSource(DataSource):
    """Landed changes of one table.

    Options:
        table: `database.table`, by the name that it had in the range.
        source: A source of the settings; not needed if they have only one.
        since: Changes after this moment: a time (UTC unless it has a zone), `interval TIME`, or a GTID set; without it,
            from the first transaction that is still in the lake.
        until: Changes up to this moment; without it, all that has landed and is tracked when the frame is made.
        columns: Names with commas between them; without it, all.
        settings: Path of the settings file; without it, `STRATA_SETTINGS` of the driver.

    The range is fixed when the frame is made: it has the same rows each time.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Finds the range.

        Raises:
            Usage: An option is missing, unknown, or has no meaning.
            PastUnknownError: The moment has not landed.
            StrataError: Settings, store or lake cannot be read.
        """
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - set(OPTIONS))
        if unknown:
            raise Usage(f"strata has no option {unknown[0]}", remedy=f"The options are {', '.join(OPTIONS)}.")
        if "table" not in given:
            raise Usage("which table", remedy='Name it: `.option("table", "database.table")`.')
        self.table = TableName.parse(given["table"])
        self.columns = [name.strip() for name in given.get("columns", "").split(",") if name.strip()]
        self._given = given
        lake = _OpenLake(given)
        self.source = lake.source.name
        since, until = given.get("since"), given.get("until")
        self.after = lake.stream.first_seq - 1 if since is None else lake.moment(since)
        known = tracked_until(lake.source, lake.engine, lake.stream)
        self.until = max(self.after, known) if until is None else lake.moment(until)
        if self.until < self.after:
            raise Usage(f"{since!r} is later than {until!r}", source=self.source, table=str(self.table))
        here = (lake.source, lake.engine, lake.stream, self.table, self.after, self.until)
        self.whole = range_schema(range_definitions(*here))

    @classmethod
    def name(cls) -> str:
        """Its name for `format`."""
        return "strata"

    def schema(self) -> StructType:
        """The columns in Spark's types."""
        chosen = some_columns(self.whole, self.columns) if self.columns else self.whole
        return from_arrow_schema(chosen, prefer_timestamp_ntz=True)

    def slices(self) -> tuple[PlannedSlice, ...]:
        """The slices of the range.

        Raises:
            StrataError: Rows of it cannot be decoded; the message says which and why.
        """
        lake = _OpenLake(self._given)
        return range_slices(lake.source, lake.engine, lake.stream, self.table, self.after, self.until)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads some columns of the changes: those of the frame, or of a schema that is given by `.schema(...)`."""
        return ChangesReader(self, schema)


class ChangesReader(DataSourceReader):
    """Reads changes, one partition for each slice."""

    def __init__(self, source: StrataSource, schema: StructType) -> None:
        self._source, self._name = source, source.source
        self._schema = to_arrow_schema(schema, timezone="UTC")
        _refuse_others(self._schema, source)

    def partitions(self) -> list[InputPartition]:
        """The slices."""
        return [InputPartition(planned_slice) for planned_slice in self._source.slices()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice.

        Raises:
            StrataError: A row cannot be decoded.
        """
        planned_slice: PlannedSlice | None = partition.value
        if planned_slice is None:
            return
        own = frozenset(own_name(name).lower() for name in own_columns(self._schema))
        for step in read_slice(planned_slice, own):
            if not isinstance(step, ChangeBatch):
                # Rows that a run would withhold, or rows that are not in the log.
                raise step.error
            batch = in_range_columns(step, self._name, self._schema)
            if batch.num_rows:
                yield batch


def _refuse_others(schema: pa.Schema, source: StrataSource) -> None:
    """Refuses columns that the range does not have, in a schema that somebody gave."""
    whole = to_arrow_schema(from_arrow_schema(source.whole, prefer_timestamp_ntz=True), timezone="UTC")
    for field in schema:
        mine = whole.field(field.name).type if field.name in whole.names else None
        if mine is None or not _is_part(field.type, mine):
            raise Usage(
                f"the range has no column {field.name} of type {field.type}"
                + ("" if mine is None else f", but {mine}"),
                source=source.source,
                table=str(source.table),
                remedy="Leave `.schema(...)` out, and name columns by the option `columns`.",
            )


def _is_part(some: pa.DataType, whole: pa.DataType) -> bool:
    """Whether a type is another one, or a struct with some of its fields."""
    if pa.types.is_struct(some) and pa.types.is_struct(whole):
        known = {field.name: field.type for field in whole.fields}
        return all(field.name in known and _is_part(field.type, known[field.name]) for field in some.fields)
    return bool(some == whole)


class _OpenLake:
    """The source with its store and its landed stream, as they are now."""

    def __init__(self, given: MutableMapping[str, str]) -> None:
        self.source = _readable_source(given)
        self.engine: sa.Engine = open_store(self.source.store_url, OnMissing.REFUSE)
        self.stream = LandedStream.open(self.source.lake, self.source.name)

    def moment(self, text: str) -> int:
        return find_moment(self.source.lake, self.source.name, self.engine, point_of(text)).seq


def _readable_source(given: MutableMapping[str, str]) -> Source:
    """The source by the settings. Without its store on the server, nothing connects to the server, and the job needs
    not know how."""
    environment = dict(os.environ)
    if "settings" in given:
        environment[SETTINGS_VARIABLE] = given["settings"]
        environment.pop(TEXT_VARIABLE, None)
    settings = load_settings(environment)
    name = settings.source_name(given.get("source"))
    own = settings.sources.get(name)
    if own is not None and (own.store or own.store_connection not in {None, own.connection}):

        def find(connection: str) -> str | None:
            return _NOWHERE if connection == own.connection else environment.get(connection_variable(connection))

        settings = load_settings(environment, find)
    return settings.source(name)
