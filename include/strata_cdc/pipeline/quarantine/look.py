"""A few rows that are in quarantine, as far as they may be shown.
Not here: finding them (`find.py`), which columns are sensitive (`selection/sensitive.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.quality.checks.names import METADATA
from strata_cdc.quality.checks.sensitive import MASK, Sensitive
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.sensitive import sensitive_columns
from strata_cdc.tables.quarantine import first_rows

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.pipeline.quarantine.find import InQuarantine


def some_rows(source: Source, engine: sa.Engine, quarantined: InQuarantine, count: int) -> list[dict[str, Any]]:
    """The first rows of a table and interval in quarantine, with what is sensitive by the settings as they are now.

    Raises:
        DamagedFileError: A file is not what was put there.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The store does not answer.
    """
    name = TableName(quarantined.withheld.table_interval.database, quarantined.withheld.table_interval.table)
    sensitive = Sensitive.from_names(sensitive_columns(source, engine, [name]).get(str(name), ()))
    return [_shown(row, sensitive) for row in first_rows((*quarantined.judged, *quarantined.aside), count)]


def _shown(row: dict[str, Any], sensitive: Sensitive) -> dict[str, Any]:
    if not sensitive.columns or "@1" not in row:
        return sensitive.shown(row)
    # From a TABLE_MAP alone it is not known which columns are the sensitive ones.
    whole = {name: value if name in METADATA or value is None else MASK for name, value in row.items()}
    return sensitive.shown(whole)
