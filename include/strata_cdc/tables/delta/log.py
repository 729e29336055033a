"""Operations on a Delta table's log: opens it, adds columns, commits files, and lists the files of the newest version.
Not here: which files and columns (`tables/commit.py`, `tables/continued.py`), reading rows (`table.py`)."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyarrow.fs import FileType

from strata_cdc.errors import LakeUnavailableError, LateListingError
from strata_cdc.files.objects import current_etag, is_s3, object_store_options
from strata_cdc.files.storage import Folder, arrow_file_system, lake_errors, read_file
from strata_cdc.tables.layout import INTERVAL, interval_of_key
from strata_cdc.tables.port import LATE_REMEDY, CommitConflictError, FileCommit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.tables.port import DataFile

CHECKPOINTS: Final = {"delta.checkpointInterval": "20"}
"""Who opens a table or commits to it reads the commits since the newest checkpoint, 0.15 ms of a processor or a request
for each, and a commit does so twice; the checkpoint of a table of 10,000 files takes 20 ms. Delta's default is 10, that
of deltalake (1.6) 100."""
_LOG: Final = "_delta_log"
_DIGITS: Final = 20
_COMMIT: Final = re.compile(r"\d{20}\.json")
_LOOKS: Final = 3
"""At a log to which others commit meanwhile."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_table(url: str) -> DeltaTable | None:
    """A Delta table as its log is listed, or None if there is none.

    Raises:
        LateListingError: The log is not listed as it is.
        LakeUnavailableError: The storage does not answer.
    """
    try:
        if _is_there(url):
            return _table(url)
    except OSError as error:
        raise LakeUnavailableError(f"a Delta table cannot be opened: {error}", file=url) from error
    except DeltaError:
        refuse_late(url)
        raise
    refuse_late(url)
    return None


def refuse_late(url: str) -> None:
    """Checks that a table's log is listed as it is: delta-rs (1.6) lists it whenever it opens a table.

    Raises:
        LateListingError: A commit is there by its name, and is not listed; or the other way round.
    """
    if "://" not in url:
        return
    folder = Folder.open(f"{url}/{_LOG}")
    listed = {int(name[:_DIGITS]) for name in folder.names() if _COMMIT.fullmatch(name)}
    # Logs grow at one end and are cut at the other: of what is listed, the oldest is the first that may be gone.
    oldest, following = min(listed, default=0), max(listed, default=-1) + 1
    doubtful = {oldest, following, *(set(range(oldest, following)) - listed)}
    names = {f"{number:0{_DIGITS}d}.json": number for number in sorted(doubtful)}
    there = folder.stamps_by_name(list(names))
    for name, number in names.items():
        if (name in there) != (number in listed):
            raise LateListingError(
                "the store does not list the log of a table as it is: this commit is there and is not listed, or the "
                "other way round",
                file=folder.join(name),
                remedy=LATE_REMEDY,
            )


def require_newest(table: DeltaTable, url: str) -> None:
    """Checks that an opened table has its newest commit, and lists the log again if another one has come meanwhile.

    Raises:
        LateListingError: The store does not list it.
    """
    if "://" not in url:
        return
    for _ in range(_LOOKS):
        if not has_commit(url, table.version() + 1):
            return
        with suppress(DeltaError):
            table.update_incremental()
    raise LateListingError(
        f"the table has a version {table.version() + 1}, and the store does not list it yet",
        file=url,
        remedy=LATE_REMEDY,
    )


def has_commit(url: str, version: int) -> bool:
    """Whether a table's log has the file of a commit, by its name."""
    if not is_s3(url):
        return bool(existing_commits({url: version}))
    try:
        current_etag(f"{url}/{_LOG}/{version:0{_DIGITS}d}.json")
    except FileNotFoundError:
        return False
    return True


def existing_commits(known: Mapping[str, int]) -> frozenset[str]:
    """URLs of those tables of one lake whose log has the file of a commit; all are looked up at once."""
    if not known:
        return frozenset()
    files = {url: f"{url}/_delta_log/{version:020d}.json" for url, version in known.items()}
    with lake_errors(next(iter(known))):
        if "://" not in next(iter(known)):
            # A file system, or a Path, for each of 10,000 tables would take longer than looking for their files.
            return frozenset(url for url, file in files.items() if os.path.isfile(file))  # noqa: PTH113
        places = [arrow_file_system(file) for file in files.values()]
        infos = places[0][0].get_file_info([path for _, path in places])
        return frozenset(url for url, info in zip(known, infos, strict=True) if info.type == FileType.File)


def _table(url: str) -> DeltaTable:
    return DeltaTable(url, storage_options=object_store_options(url))


def _is_there(url: str) -> bool:
    return DeltaTable.is_deltatable(url, object_store_options(url))


def create_table(url: str, columns: Sequence[pa.Field]) -> DeltaTable:
    """A new table without rows.

    Raises:
        CommitConflictError: There is already a table.
    """
    try:
        # Without retries: after a lost race, deltalake 1.6 would commit its schema over that of the other process.
        create_table_with_add_actions(
            url,
            Schema([Field.from_arrow(field) for field in columns]),
            [],
            partition_by=[INTERVAL],
            configuration=CHECKPOINTS,
            commit_properties=CommitProperties(max_commit_retries=0),
            storage_options=object_store_options(url),
        )
        return _table(url)
    except DeltaError as error:
        if has_commit(url, 0) or _is_there(url):
            raise CommitConflictError from error
        raise


def with_columns(table: DeltaTable, url: str, added: Sequence[pa.Field]) -> DeltaTable:
    """The table with more columns; an existing struct gets the fields that it lacks.

    This is a commit of its own: an append with new columns hides them (deltalake 1.6), so they must exist before it.
    """
    if not added:
        return table
    table.alter.add_columns([Field.from_arrow(field) for field in added])
    return _table(url)


def commit_files(
    table: DeltaTable,
    source: str,
    added: Sequence[DataFile],
    removed: Mapping[str, int],
    *,
    marks: Mapping[str, int] | None = None,
    about: Mapping[str, str] | None = None,
    changes_rows: bool = True,
) -> None:
    """Makes one commit that removes and adds files. Refused if another process committed since the table was opened.

    Args:
        table: The table; it knows the new version afterwards.
        added: Files that are already in the table's folder.
        removed: Path -> interval.
        marks: Ids of transactions that the commit notes, with their versions.
        about: More metadata of the commit, besides the source.
        changes_rows: Whether readers see other rows afterwards (`dataChange` in Delta's log).

    Raises:
        CommitFailedError: Another process committed meanwhile.
    """
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        *(
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values={INTERVAL: partition_value(file.interval)},
                modification_time=now_ms,
                data_change=changes_rows,
                stats=file.stats,
            )
            for file in added
        ),
        *(
            RemoveAction(
                path=path,
                data_change=changes_rows,
                deletion_timestamp=now_ms,
                partition_values={INTERVAL: partition_value(interval)},
            )
            for path, interval in removed.items()
        ),
    ]
    # Each publication increases the same counter, and Delta refuses the second of two that increase it from the same
    # number: a process that read the table before another one committed has to read it again.
    counter = f"strata:{source}"
    table.create_write_transaction(
        actions,
        mode="append",
        schema=table.schema(),
        partition_by=[INTERVAL],
        commit_properties=CommitProperties(
            custom_metadata={**(about or {}), "strata.source": source},
            app_transactions=[
                Transaction(counter, (table.transaction_version(counter) or 0) + 1),
                *(Transaction(mark, number) for mark, number in (marks or {}).items()),
            ],
        ),
    )
    table.update_incremental()


def file_commits(url: str, after: int, version: int) -> list[FileCommit] | None:
    """What the commits with after < number <= version did to a table's files; None if the log lacks one of them."""
    commits = []
    for number in range(after + 1, version + 1):
        content = read_file(f"{url}/_delta_log/{number:020d}.json")
        if content is None:
            return None
        commits.append(_file_commit([msgspec.json.decode(line) for line in content.splitlines() if line]))
    return commits


def _file_commit(actions: Sequence[dict[str, Any]]) -> FileCommit:
    added = [action["add"] for action in actions if "add" in action]
    removed = [action["remove"] for action in actions if "remove" in action]
    return FileCommit(
        any(file["dataChange"] for file in (*added, *removed)),
        tuple(map(_interval_of, added)),
        tuple(map(_interval_of, removed)),
    )


def _interval_of(file: dict[str, Any]) -> int:
    value = (file.get("partitionValues") or {}).get(INTERVAL)
    # Another writer may leave the partition out where it removes a file; the path of Strata's own files has it, too.
    if value is None:
        return interval_of_key(file["path"].split("/")[1])
    moment = datetime.fromisoformat(value)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def add_actions(table: DeltaTable) -> pa.Table:
    """What the log has of each live file, with its partition and its statistics in columns of their own."""
    # `pa.table` of another library's object imports pandas to check for a frame: half a second of a short process.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()


def live_files(actions: pa.Table, start: int | None = None, end: int | None = None) -> dict[str, int]:
    """Paths of the data files, with the interval of each, by any writer (a user's `optimize` has its own names).

    Args:
        actions: `add_actions`.
        start: Only intervals that start then (microseconds UTC) or later.
        end: Only intervals that start before.
    """
    if actions.num_rows == 0:
        return {}
    files = pa.table([actions["path"], actions[f"partition.{INTERVAL}"].cast(pa.int64())], ["path", "start"])
    files = _between(files, "start", None if start is None else start - 1, None if end is None else end - 1)
    # The list has the paths as in the log, percent-encoded; RemoveAction encodes its argument itself (deltalake 1.6).
    # This matters for files that Strata did not write: the folders of `optimize` have colons and blanks in their names.
    paths = [unquote(path) for path in files["path"].to_pylist()]
    return dict(zip(paths, files["start"].to_pylist(), strict=True))


def bounds_of(actions: pa.Table, column: str, after: int | None, last: int | None) -> dict[str, tuple[int, int]]:
    """The smallest and the largest integer of a column in each file without NULLs in it, if the log has them.

    Args:
        actions: `add_actions`.
        after: Only of files whose largest is larger.
        last: Only of files whose smallest is not larger.
    """
    names = [f"{part}.{column}" for part in ("min", "max", "null_count")]
    if not set(names) <= set(actions.column_names):
        return {}
    low, high, nulls = (actions[name] for name in names)
    if not (pa.types.is_integer(low.type) and pa.types.is_integer(high.type)):
        return {}
    ranges = pa.table([actions["path"], low, high], ["path", "low", "high"]).filter(pc.equal(nulls, 0))
    ranges = _between(_between(ranges, "high", after, None), "low", None, last).drop_null()
    rows = zip(*(ranges[name].to_pylist() for name in ("path", "low", "high")), strict=True)
    return {unquote(path): (low, high) for path, low, high in rows}


def _between(rows: pa.Table, column: str, after: int | None, last: int | None) -> pa.Table:
    """The rows with after < value <= last; in Arrow, since there may be a hundred thousand."""
    if after is not None:
        rows = rows.filter(pc.greater(rows[column], after))
    return rows if last is None else rows.filter(pc.less_equal(rows[column], last))


def columns_of(table: DeltaTable) -> pa.Schema:
    """The table's columns."""
    return pa.schema(table.schema().to_arrow())


def stored(columns: pa.Schema) -> pa.Schema:
    """Columns of a file in the types that they have in Delta's log."""
    return pa.schema(Schema.from_arrow(columns).to_arrow())


def partition_value(interval: int) -> str:
    """The start of an interval in the form of Delta's log: ISO 8601 in UTC, which no reader takes for local time."""
    return (_EPOCH + timedelta(microseconds=interval)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
