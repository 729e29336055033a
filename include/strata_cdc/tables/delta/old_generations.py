"""Change tables of older versions of Strata, which continued in separate tables `_g2`, `_g3` after a change of type.
Not here: publishing (`tables/commit.py`), which column continues which (`tables/continued.py`).

The next publication of such a table copies the files of its later generations into the first table, where all readers
see them, in one commit that notes how many generations it has copied. Then the folders of these are deleted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import delete_file, delete_folder, list_folders, read_file, write_file
from strata_cdc.tables.continued import place_columns
from strata_cdc.tables.delta.log import (
    add_actions,
    columns_of,
    commit_files,
    live_files,
    open_table,
    stored,
    with_columns,
)
from strata_cdc.tables.layout import data_path, published_name
from strata_cdc.tables.parquet_names import rename_columns
from strata_cdc.tables.port import DataFile
from strata_cdc.tables.statistics import delta_statistics, renamed_statistics

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FOLDED = "strata:generations"
"""Id of the Delta transaction whose version is the last generation that the table has copied."""
_LIST = "_generations.json"
_PREFIX = "_g"


def later_generations(table: DeltaTable, url: str) -> dict[int, DeltaTable]:
    """By number, the generations after the first whose rows are not in the table yet; newer tables have none."""
    generations: dict[int, DeltaTable] = {}
    if not _has_generations(url):
        return generations
    number = (table.transaction_version(_FOLDED) or 1) + 1
    while (generation := open_table(_folder(url, number))) is not None:
        generations[number] = generation
        number += 1
    return generations


def fold_generations(table: DeltaTable, url: str, source: str) -> DeltaTable:
    """The table with the rows of all of its generations. It is safe to repeat this, and to kill it.

    Raises:
        CommitFailedError: Another process committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    if not _has_generations(url):
        return table
    waiting = later_generations(table, url)
    if waiting:
        added: list[DataFile] = []
        for number, generation in waiting.items():
            for path, interval in live_files(add_actions(generation)).items():
                table, file = _copied(table, url, f"{_folder(url, number)}/{path}", interval)
                added.append(file)
        commit_files(table, source, added, {}, marks={_FOLDED: max(waiting)}, about={"strata.folded": str(len(added))})
    folded = table.transaction_version(_FOLDED)
    if folded is not None:
        # Before the folders: without any, nothing is looked for any more.
        delete_file(f"{url}/{_LIST}")
        for number in range(2, folded + 1):
            delete_folder(_folder(url, number))
    return table


def _has_generations(url: str) -> bool:
    """Whether there may be any; newer tables have none, and this is one look at their folder."""
    return any(name.startswith(_PREFIX) for name in list_folders(url))


def _copied(table: DeltaTable, url: str, file_url: str, interval: int) -> tuple[DeltaTable, DataFile]:
    """Copies one file of a generation, with the names that its columns have in the table."""
    content = read_file(file_url)
    if content is None:
        raise LakeUnavailableError("a published file is gone", file=file_url)
    metadata = pq.read_metadata(pa.BufferReader(content))
    placement = place_columns(columns_of(table), stored(metadata.schema.to_arrow_schema()))
    table = with_columns(table, url, placement.added)
    path = data_path(interval, published_name(file_url.rpartition("/")[2], placement.names))
    parts = rename_columns(content, placement.names)
    write_file(f"{url}/{path}", *parts)
    stats = renamed_statistics(delta_statistics(metadata), placement.names)
    return table, DataFile(path, interval, sum(map(len, parts)), json.dumps(stats))


def _folder(url: str, number: int) -> str:
    return f"{url}/{_PREFIX}{number}"
