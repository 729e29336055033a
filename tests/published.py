"""What is published in a lake: its change tables, and the data files that none of their versions has.
Not here: the rows (`strata_cdc.tables.read`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.files.storage import list_files, list_folders
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import changes_url, name_of_path, table_url
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.port import OutputError

if TYPE_CHECKING:
    from strata_cdc.tables.port import Output


def published_tables(lake: str, source: str, output: Output = OUTPUT) -> list[TableName]:
    """The tables of a source that have a change table, by name; files in a folder may be unpublished."""
    root = changes_url(lake, source)
    return sorted(
        TableName(name_of_path(database), name_of_path(table))
        for database in list_folders(root)
        for table in list_folders(f"{root}/{database}")
        if _is_table(f"{root}/{database}/{table}", output)
    )


def _is_table(url: str, output: Output) -> bool:
    try:
        return output.open(url) is not None
    except OutputError:
        # A table that is damaged is one.
        return True


def unpublished_files(lake: str, source: str, table: TableName, output: Output = OUTPUT) -> list[str]:
    """URLs of data files that are not in the newest version of the table: files of publications that were killed, and
    files that a later publication replaced. Delta's `vacuum(full=True)` deletes them in time."""
    url = table_url(lake, source, table)
    opened = output.open(url)
    live = set() if opened is None else {f"{url}/{path}" for path in opened.files()}
    return [file for file in list_files(f"{url}/data") if file not in live]
