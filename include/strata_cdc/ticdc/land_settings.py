"""Landing a sink as the settings of its source say.
Not here: landing (`land_sink.py`), the settings (`config/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import is_selected
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.land_sink import SinkLocation, land_sink, sink_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.cut_segments import LandReport
    from strata_cdc.landing.land_state import LandProgress


def land_sink_source(source: Source, progress: Callable[[LandProgress], None] | None = None) -> LandReport:
    """`land_sink` of a source, with its errors; only tables that the settings want are landed."""
    settings = source.settings
    form = sink_settings(settings.null, settings.binary_encoding, settings.time_zone)
    location = SinkLocation(settings.url or "", source.lake, source.name, form, source.segment_bytes)
    return land_sink(location, wanted_of(source), progress)


def wanted_of(source: Source) -> Callable[[TableName], bool]:
    """Which tables are landed."""
    settings = source.settings

    def wanted(table: TableName) -> bool:
        return is_selected(table, settings.tables, settings.exclude, folded=False)

    return wanted


def sink_tables(source: Source) -> frozenset[TableName]:
    """The tables of which the folder of a source has schema files, whether they exist now or not.

    Raises:
        Usage: The folder is no sink.
        BadData: It contradicts itself.
        LakeUnavailableError: The storage does not answer.
    """
    files = read_contents(source.settings.url or "").schema_files
    return frozenset(TableName(file.schema, file.table) for file in files if file.table)
