"""Deletes files in the folders of change tables that no commit names: what killed runs have left, rows that were
withheld, files that a later publication replaced.
Not here: run folders (`clean_runs.py`), files that were merged (`merge_intervals.py`), logs.

Tasks write files where they stay, before anybody knows whether they are published (decision 118). A file goes if no
state of its table has had it for a week, it has not changed for a week, and no run folder is there whose span has the
file's interval: as long as there is one, its run may still be published.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import from_micros
from strata_cdc.counted import counted
from strata_cdc.errors import LostTableError
from strata_cdc.files.storage import delete_file, file_times, list_folders
from strata_cdc.pipeline.housekeep.merge_intervals import MergeStep
from strata_cdc.runs.run_folder import runs_url
from strata_cdc.runs.run_name import RunName
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import changes_url, interval_of_key, name_of_path, table_url
from strata_cdc.tables.lost import open_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.config.settings import Source

HOURS: Final = 168
"""Longer than any run, and than any reader of an older state of a table."""
_HOUR: Final = 3_600_000_000
_SECOND: Final = 1_000_000


def unneeded_steps(source: Source, *, now: int) -> Iterator[MergeStep]:
    """Deletes what is not needed of the tables whose turn it is: each has an hour of the day.

    Safe to repeat, and to be killed.

    Args:
        source: The source.
        now: Microseconds UTC.
    """
    hour = from_micros(now).hour
    for table in _tables(source):
        if zlib.crc32(str(table).encode()) % 24 == hour:
            gone = delete_unneeded(source, table, now=now)
            if gone:
                yield MergeStep(f"{table}: deleted {counted(gone, 'file')} that no commit names")


def delete_unneeded(source: Source, table: TableName, *, now: int) -> int:
    """Deletes the files of one table that nobody needs; returns how many."""
    url, before = table_url(source.lake, source.name, table), now - HOURS * _HOUR
    unneeded = _unneeded(source, table, url, before)
    if not unneeded:
        return 0
    # After the files: a run that is planned later writes its files anew, and then they are young.
    spans = _spans_of_runs(source)
    count = 0
    for folder in sorted({path.rpartition("/")[0] for path in unneeded}):
        start = _start_of(folder)
        if start is None or any(begin <= start < end for begin, end in spans):
            continue
        times = file_times(f"{url}/{folder}")
        for path in unneeded:
            file = f"{url}/{path}"
            if path.rpartition("/")[0] == folder and times.get(file, before) < before:
                delete_file(file)
                count += 1
    return count


def _tables(source: Source) -> Iterator[TableName]:
    root = changes_url(source.lake, source.name)
    for database in list_folders(root):
        for table in list_folders(f"{root}/{database}"):
            yield TableName(name_of_path(database), name_of_path(table))


def _unneeded(source: Source, table: TableName, url: str, before: int) -> Sequence[str]:
    """Paths relative to the table."""
    try:
        changes = open_changes(source.lake, source.name, table)
    except LostTableError:
        # What is left of it may be all that there is.
        return ()
    if changes is not None:
        return () if changes.left_beside() else changes.unneeded(HOURS)
    return [file.removeprefix(f"{url}/") for file, changed in file_times(f"{url}/data").items() if changed < before]


def _spans_of_runs(source: Source) -> list[tuple[int, int]]:
    """The spans of the runs whose folders are there; names have whole seconds. A folder with another name may be of a
    run of any span."""
    names = [RunName.parse(run) for run in list_folders(runs_url(source.lake, source.name))]
    return [(0, 1 << 62) if name is None else (name.start - _SECOND, name.end + _SECOND) for name in names]


def _start_of(folder: str) -> int | None:
    """Start of the interval of a folder `data/...`; None for what Strata has not written."""
    data, _, key = folder.partition("/")
    try:
        return interval_of_key(key) if data == "data" else None
    except ValueError:
        return None
