"""Publishing: staged files become rows that readers see, one Delta commit for each table and interval.
Not here: whether they may (`jobs/publish_interval.py`), which generation takes them (`generation.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from msgspec import Struct

from strata.errors import LakeUnavailableError
from strata.tables.generation import Home, choose_home, list_generations, open_generations, shape_mark
from strata.tables.layout import INTERVAL, data_path, interval_key, partition_value, table_url
from strata.tables.pinned import read_pinned
from strata.wire.storage import list_files, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.schema.model import TableName
    from strata.tables.write import StagedFile

ATTEMPTS = 12
"""How often a publication is begun anew because another one came first."""
FIRST_WAIT_SECONDS = 0.05
"""Before the second attempt; doubles each time, up to a second."""


class Commit(Struct, frozen=True):
    """What a publication left in one generation of a table."""

    database: str
    table: str
    generation: int
    version: int
    """Version of the Delta table that has the interval's rows."""
    rows: int
    """Rows of the interval that are published now."""
    added_files: int
    removed_files: int
    """Both 0 if the interval was published with just these files before: then there was no commit."""


def publish(
    lake: str, source: str, table: TableName, interval: int, staged: Sequence[StagedFile]
) -> tuple[Commit, ...]:
    """Makes these files, and no others, what readers see of a table and interval.

    Safe to repeat and to run beside itself: former files of the interval that are not among the staged ones go in the
    commit that brings those, and nothing is committed if nothing differs. Rows of incompatible shapes need a commit in
    each of their generations.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: The table.
        interval: Start of the interval (microseconds UTC).
        staged: All files of the table and interval; none empties it.

    Returns:
        One entry for each generation that has or had rows of the interval, in order.

    Raises:
        DamagedFileError: A staged file is not the one that was decoded; nothing of the table is committed.
        LakeUnavailableError: The storage does not answer, or other publishers kept coming first.
    """
    work = _Publication(lake, source, table, interval, tuple(staged))
    wait = FIRST_WAIT_SECONDS
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(wait)
            wait = min(2 * wait, 1.0)
        try:
            return work.attempt()
        except CommitFailedError:
            continue
        except _TableAppeared:
            continue
        except (OSError, DeltaError) as error:
            raise LakeUnavailableError(
                f"interval {interval_key(interval)} cannot be committed: {error}", source=source, table=str(table)
            ) from error
    raise LakeUnavailableError(
        f"interval {interval_key(interval)} could not be committed in {ATTEMPTS} attempts, others came first each time",
        source=source,
        table=str(table),
        remedy="Run the step again; it goes on where it stopped.",
    )


class _TableAppeared(Exception):
    """Another publisher created the generation first."""


class _Publication(Struct, frozen=True):
    """One interval of one table on its way; holds nothing that an attempt has to undo."""

    lake: str
    source: str
    table: TableName
    interval: int
    staged: tuple[StagedFile, ...]

    def attempt(self) -> tuple[Commit, ...]:
        generations = open_generations(self.lake, self.source, self.table)
        files: dict[int, list[StagedFile]] = {number: [] for number in range(1, len(generations) + 1)}
        marks: dict[int, set[str]] = {}
        for version_id in sorted({file.version_id for file in self.staged}):
            of_version = [file for file in self.staged if file.version_id == version_id]
            shape = pq.read_schema(pa.BufferReader(read_pinned(of_version[0])))
            home = choose_home(generations, shape)
            self._make_room(generations, home, shape)
            files.setdefault(home.generation, []).extend(of_version)
            marks.setdefault(home.generation, set()).add(shape_mark(shape))
        commits: list[Commit] = []
        # Files come before others go: between two commits a reader may see a row twice, never miss one.
        for number in sorted(files, key=lambda number: (not files[number], number)):
            commit = self._replace(number, generations[number - 1], files[number], marks.get(number, set()))
            if commit is not None:
                commits.append(commit)
        if generations:
            list_generations(self.lake, self.source, self.table, generations)
        return tuple(sorted(commits, key=lambda commit: commit.generation))

    def _make_room(self, generations: list[DeltaTable], home: Home, shape: pa.Schema) -> None:
        """Commits of their own: an append with new columns hides them (deltalake 1.6), so they must be there before."""
        url = table_url(self.lake, self.source, self.table, home.generation)
        if home.generation > len(generations):
            try:
                # Without retries: after a lost race deltalake 1.6 would commit its schema over that of the winner.
                create_table_with_add_actions(
                    url,
                    Schema.from_arrow(shape),
                    [],
                    partition_by=[INTERVAL],
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except DeltaError:
                if DeltaTable.is_deltatable(url):
                    raise _TableAppeared from None
                raise
            generations.append(DeltaTable(url))
        elif home.added:
            generations[home.generation - 1].alter.add_columns(list(home.added))
            generations[home.generation - 1] = DeltaTable(url)

    def _replace(self, number: int, table: DeltaTable, files: list[StagedFile], marks: set[str]) -> Commit | None:
        """One commit: former files of the interval out, these in."""
        former = _files_of(table, self.interval)
        wanted = {data_path(self.interval, file.file_name): file for file in files}
        if not former and not wanted:
            return None
        added = [path for path in wanted if path not in former]
        removed = [path for path in former if path not in wanted]
        if added or removed:
            root = table_url(self.lake, self.source, self.table, number)
            for path in added:
                write_file(f"{root}/{path}", read_pinned(wanted[path]))
            self._commit(table, [wanted[path] for path in added], removed, marks)
            table.update_incremental()
        return Commit(
            database=self.table.database,
            table=self.table.table,
            generation=number,
            version=table.version(),
            rows=sum(file.rows for file in files),
            added_files=len(added),
            removed_files=len(removed),
        )

    def _commit(self, table: DeltaTable, added: list[StagedFile], removed: list[str], marks: set[str]) -> None:
        now_ms = time.time_ns() // 1_000_000
        partition: dict[str, str | None] = {INTERVAL: partition_value(self.interval)}
        actions: list[AddAction | RemoveAction] = [
            *(
                AddAction(
                    path=data_path(self.interval, file.file_name),
                    size=file.size_bytes,
                    partition_values=partition,
                    modification_time=now_ms,
                    data_change=True,
                    stats=file.stats,
                )
                for file in added
            ),
            *(
                RemoveAction(path=path, data_change=True, deletion_timestamp=now_ms, partition_values=partition)
                for path in removed
            ),
        ]
        # Every publication raises the same counter, and Delta refuses the second of two that raise it from the same
        # number: whoever looked at the table before another one committed has to look again.
        counter = f"strata:{self.source}"
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=[INTERVAL],
            commit_properties=CommitProperties(
                custom_metadata={"strata.interval": interval_key(self.interval), "strata.source": self.source},
                app_transactions=[
                    Transaction(counter, (table.transaction_version(counter) or 0) + 1),
                    *(Transaction(mark, 1) for mark in sorted(marks) if table.transaction_version(mark) is None),
                ],
            ),
        )


def unpublished_files(lake: str, source: str, table: TableName) -> list[str]:
    """URLs of data files that no version of the table that is still kept refers to as its newest: leftovers of
    publications that died, and files that a later one replaced. `DeltaTable.vacuum(full=True)` deletes them in time.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    left: list[str] = []
    for number, generation in enumerate(open_generations(lake, source, table), 1):
        root = table_url(lake, source, table, number)
        live = {f"{root}/{path}" for path in _paths(generation)}
        left += [url for url in list_files(f"{root}/data") if url not in live]
    return left


def _files_of(table: DeltaTable, interval: int) -> set[str]:
    """Paths of the data files of an interval, whoever wrote them (a user's `optimize` names them differently)."""
    found = pa.table(table.get_add_actions(flatten=True))
    if found.num_rows == 0:
        return set()
    starts = found.column(f"partition.{INTERVAL}").cast(pa.int64()).to_pylist()
    return {path for path, start in zip(_paths(table), starts, strict=True) if start == interval}


def _paths(table: DeltaTable) -> list[str]:
    # Listed as the log has them, percent-encoded; RemoveAction encodes what it is given (deltalake 1.6). It matters for
    # files that are not ours: the folders of `optimize` have colons and blanks in their names.
    return [unquote(path) for path in pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()]
