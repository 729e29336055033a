"""Change tables that lack commits which they once had: the folder, or the end of the log, was deleted. Readers would
take what is left for the complete table.
Not here: the notes of commits (`store/ledgers.py`), making a table again (`lake/rebuild.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import LostTableError
from strata_cdc.files.storage import list_folders
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.full_names import split_full_name
from strata_cdc.store.ledgers import PublishedLedger
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.port import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import sqlalchemy as sa

    from strata_cdc.tables.port import Output, OutputTable


def newest_commits(source: str, engine: sa.Engine) -> dict[TableName, int]:
    """The newest commit of each change table, from the store."""
    commits = ((split_full_name(name), version) for name, version in PublishedLedger(engine).newest(source).items())
    return {TableName(*name): version for name, version in commits if name is not None}


def open_changes(
    lake: str, source: str, table: TableName, known: int | None = None, output: Output = OUTPUT
) -> OutputTable | None:
    """A change table as it is now, or None; what is left of a lost table is neither read nor written.

    Args:
        known: The number of a commit that was made; None if no such number is known.
        output: The kind of table.

    Raises:
        LostTableError: The table lacks that commit, or its log is not complete.
        LateListingError: The storage does not list its newest commit yet.
        LakeUnavailableError: The storage does not answer.
    """
    url = table_url(lake, source, table)
    try:
        opened = output.open(url)
    except OutputError as error:
        # Raises an error if the cause is the storage, not the table.
        list_folders(url)
        raise _damaged(source, table, url, error) from error
    has = -1 if opened is None else opened.version
    if known is not None and has < known:
        raise _lost(source, table, "it is not there" if has < 0 else f"its newest version is {has}", known)
    return opened


def find_lost(
    lake: str, source: str, known: Mapping[TableName, int], output: Output = OUTPUT
) -> Iterator[LostTableError]:
    """The tables that lack a commit, by name: checks one file for each table, and the log of those that do not have it.

    Args:
        known: The newest commit of each table that is known to have been made.
        output: The kind of tables.
    """
    urls = {table: table_url(lake, source, table) for table in known}
    seen = output.with_commit({url: known[table] for table, url in urls.items()})
    for table in sorted(table for table, url in urls.items() if url not in seen):
        try:
            open_changes(lake, source, table, known[table], output)
        except LostTableError as error:
            yield error


def _damaged(source: str, table: TableName, url: str, error: OutputError) -> LostTableError:
    """The error for a table that must not be replaced automatically: it may have rows that cannot be made again."""
    return LostTableError(
        f"the change table cannot be opened: {error}",
        source=source,
        table=str(table),
        file=url,
        remedy="Restore its folder from a backup of the lake, whole. Without one, move it away: "
        f"`strata lake rebuild --source {source}` then makes the table anew.",
    )


def _lost(source: str, table: TableName, what: str, known: int) -> LostTableError:
    return LostTableError(
        f"version {known} of the change table is published, and {what}: somebody has deleted of it",
        source=source,
        table=str(table),
        remedy="Restore its folder from a backup of the lake, whole. Without one, "
        f"`strata lake rebuild --source {source}` lets its rows come again; the other tables go on meanwhile.",
    )
