"""A file of change rows that was written before, read for some keys only: where they are, and the last image of each.
Not here: which files, and what follows from it (`earlier_images.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from strata_cdc.arrow_columns import to_numbers
from strata_cdc.binlog.kernels.chains import FOUND, LEFT
from strata_cdc.changes.row_hashes import hash_rows
from strata_cdc.files.storage import arrow_file_system
from strata_cdc.quality.checks.arrow_values import equals, flags_of, numbers_of
from strata_cdc.quality.checks.before_after import hash_keys, texts_of, with_texts
from strata_cdc.quality.checks.names import column_name
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.changes.row_hashes import Ints
    from strata_cdc.quality.checks.arrow_values import Flags


class UnreadableEarlierError(Exception):
    """A file that is gone, damaged, or not as this source writes it: somebody has rewritten it."""


class EarlierFile(Struct, frozen=True):
    """A file that may have earlier images."""

    url: str
    interval: int
    """That owns its rows: start, microseconds UTC."""
    bounds: tuple[int, int] | None = None
    """For a key of one whole number: the key of all of its rows; None if that is not known."""
    version: int | None = None
    """The schema version of its rows; None if only the file has it."""


class LastImage(NamedTuple):
    """The last image of a key in a file."""

    key: int
    seq: int
    row: int
    side: int
    group: int
    at: int
    """The row in its row group."""
    file: EarlierFile

    @property
    def position(self) -> tuple[int, int, int]:
        """Where it is in the stream."""
        return self.seq, self.row, self.side

    @property
    def is_gone(self) -> bool:
        """Whether nothing was left under the key."""
        return self.side == FOUND


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError) as error:
        raise UnreadableEarlierError(str(error)) from None


class OpenedFile:
    """A Parquet file of change rows, of which only what is requested is read."""

    def __init__(self, file: EarlierFile) -> None:
        """Opens it.

        Raises:
            UnreadableEarlierError: It is gone, damaged, or holds rows of several versions.
            LakeUnavailableError: No file system has its URL.
        """
        self.file = file
        files, path = arrow_file_system(file.url)
        with _readable():
            self._parquet = pq.ParquetFile(files.open_input_file(path))
            self.schema = self._parquet.schema_arrow
            self.version = self._the_version() if file.version is None else file.version
        self.rows: int = self._parquet.metadata.num_rows

    def _the_version(self) -> int:
        groups = {bound for group in self._groups() for bound in self._bounds(group, "_schema_version") or (None, None)}
        version = groups.pop() if len(groups) == 1 else None
        if not isinstance(version, int):
            raise UnreadableEarlierError("its rows are of several schema versions")
        return version

    def column(self, name: str) -> str:
        """The name of a version's column in the file: if it has had several types, the type follows the name.

        Raises:
            UnreadableEarlierError: There is no such column, or several may be it.
        """
        plain = fold_name(column_name(name))
        own = self.schema.names[: self.schema.get_field_index("_before")]
        names = [name for name in own if fold_name(name) == plain] or [
            name for name in own if fold_name(name).startswith(f"{plain}__")
        ]
        if len(names) != 1:
            raise UnreadableEarlierError(f"it has no column {name}")
        return str(names[0])

    def images_of(self, keys: Sequence[str], wanted: Ints) -> Iterator[LastImage]:
        """The last image of each of some keys in each row group.

        Args:
            keys: The columns of the key, as the version calls them.
            wanted: Their hashes, rising.

        Raises:
            UnreadableEarlierError: It is not what it should be.
        """
        names = [self.column(name) for name in keys]
        for group in self._groups():
            if len(names) > 1 or self._may_have(group, names[0], wanted):
                yield from self._images_in(group, names, keys, wanted)

    def _images_in(self, group: int, names: Sequence[str], keys: Sequence[str], wanted: Ints) -> Iterator[LastImage]:
        position = ["_op", "_seq", "_row"]
        batch = self._read(group, [*names, *position, "_invalid", *(f"_before.{name}" for name in names)])
        op = batch.column("_op")
        is_insert, is_delete = flags_of(equals(op, "insert")), flags_of(equals(op, "delete"))
        seq, row = numbers_of(batch.column("_seq")), numbers_of(batch.column("_row"))
        before = batch.column("_before")
        images = dict(zip([field.name for field in before.type], before.flatten(), strict=True))
        before_keys = [images[name] for name in names]
        invalid = batch.column("_invalid")
        before_texts = texts_of(invalid, "_before.", keys)
        texts = with_texts(hash_keys(before_keys, batch.num_rows), before_texts)
        # A key is never NULL: a partial image lacks what the change has left as it was.
        after = [(batch.column(name), text) for name, text in zip(names, texts_of(invalid, "", keys), strict=True)]
        pairs = [
            _coalesced(*new, *old) for new, old in zip(after, zip(before_keys, before_texts, strict=True), strict=True)
        ]
        left = with_texts(hash_keys([value for value, _ in pairs], batch.num_rows), [text for _, text in pairs])
        last: dict[int, LastImage] = {}
        for side, hashes, has in ((FOUND, texts, ~is_insert), (LEFT, left, ~is_delete)):
            for at in np.flatnonzero(has & np.isin(hashes, wanted)).tolist():
                image = LastImage(int(hashes[at]), int(seq[at]), int(row[at]), side, group, at, self.file)
                if image.key not in last or last[image.key].position < image.position:
                    last[image.key] = image
        yield from last.values()

    def hashes(
        self, names: Sequence[str], lefts: Sequence[LastImage], kinds: Sequence[pa.DataType]
    ) -> tuple[Ints, Flags]:
        """A hash of what was left in each of some rows, and whether nothing lacks in it.

        Args:
            names: The columns, as the version calls them.
            lefts: The rows, all of this file.
            kinds: The types that the columns must have.

        Raises:
            UnreadableEarlierError: They are not there, or have other types.
        """
        columns = [self.column(name) for name in names]
        if [self.schema.field(name).type for name in columns] != list(kinds):
            raise UnreadableEarlierError("its columns have other types")
        hashes, is_whole = np.zeros(len(lefts), np.int64), np.zeros(len(lefts), np.bool_)
        for group in sorted({left.group for left in lefts}):
            mine = [number for number, left in enumerate(lefts) if left.group == group]
            batch = self._read(group, [*columns, "_missing", "_invalid"])
            rows = batch.take(_numbers([lefts[number].at for number in mine]))
            invalid = rows.column("_invalid")
            texts = texts_of(invalid, "", names)
            hashes[mine] = with_texts(hash_rows([rows.column(name) for name in columns], len(mine)), texts)
            is_whole[mine] = flags_of(rows.column("_missing").is_null()) & ~_have_differences(invalid)
        return hashes, is_whole

    def before_hashes(self, names: Sequence[str], noted: Sequence[str | None], at: Sequence[int]) -> Ints:
        """A hash of what changes found in each of some rows, which are counted through the file.

        Args:
            names: The columns.
            noted: What they are called in `_invalid`; None for one that it never has.
            at: The rows.

        Raises:
            UnreadableEarlierError: It is not what it should be.
        """
        hashes = np.zeros(len(at), np.int64)
        begin = 0
        for group in self._groups():
            end = begin + self._parquet.metadata.row_group(group).num_rows
            mine = [number for number, row_at in enumerate(at) if begin <= row_at < end]
            if mine:
                rows = self._read(group, ["_before", "_invalid"])
                rows = rows.take(_numbers([at[number] - begin for number in mine]))
                images, texts = rows.column("_before"), texts_of(rows.column("_invalid"), "_before.", noted)
                columns_of_image = dict(zip([field.name for field in images.type], images.flatten(), strict=True))
                hashes[mine] = with_texts(hash_rows([columns_of_image[name] for name in names], len(mine)), texts)
            begin = end
        return hashes

    def kinds_before(self, names: Sequence[str]) -> list[pa.DataType]:
        """The types of some columns in the images before changes."""
        images = self.schema.field("_before").type
        return [images.field(name).type for name in names]

    def _read(self, group: int, columns: Sequence[str]) -> pa.RecordBatch:
        with _readable():
            table = self._parquet.read_row_group(group, columns=list(columns), use_threads=False).combine_chunks()
            batches = table.to_batches()
            return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def _groups(self) -> range:
        return range(self._parquet.num_row_groups)

    def _may_have(self, group: int, name: str, wanted: Ints) -> bool:
        """Whether one of some numbers may be in a row group; deletes have theirs in the image before."""
        bounds = self._bounds(group, name)
        if bounds is None or not all(isinstance(bound, int) for bound in bounds):
            return True
        low, high = bounds
        return bool(np.searchsorted(wanted, low) < np.searchsorted(wanted, high, side="right"))

    def _bounds(self, group: int, name: str) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column in a row group without NULL; None if they are not known."""
        metadata = self._parquet.metadata.row_group(group)
        for number in range(metadata.num_columns):
            column = metadata.column(number)
            if column.path_in_schema == name:
                statistics = column.statistics
                is_known = (
                    statistics is not None
                    and statistics.has_min_max
                    and statistics.has_null_count
                    and not statistics.null_count
                )
                return (statistics.min, statistics.max) if is_known else None
        return None


def _coalesced(
    value: pa.Array, text: pa.Array | None, other: pa.Array, other_text: pa.Array | None
) -> tuple[pa.Array, pa.Array | None]:
    """A column and its texts, of another image where there is neither."""
    if text is None and other_text is None:
        return pc.coalesce(value, other), None
    texts = [pa.nulls(len(value), pa.string()) if texts_of is None else texts_of for texts_of in (text, other_text)]
    has = pc.or_(value.is_valid(), texts[0].is_valid())
    return pc.if_else(has, value, other), pc.if_else(has, *texts)


def _have_differences(invalid: pa.Array) -> Flags:
    """Whether the map of a row has what changed in a document: all else begins with a digit."""
    flags = [any(not text[:1].isdigit() for _, text in entries or ()) for entries in invalid.to_pylist()]
    return np.array(flags, np.bool_)


def _numbers(values: Sequence[int]) -> Any:
    return to_numbers(np.array(values, np.int64))
