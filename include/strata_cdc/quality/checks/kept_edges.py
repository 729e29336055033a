"""The edges of files until all files of a run are read: in memory, or by the hash of their keys on this machine's disk.
Not here: what edges are and how files are compared (`before_after.py`), Spark's way to do it
(`check_step/run_pass.py`).

A key takes 35 bytes in each file that has it, and a day of a busy server has a hundred million keys.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from strata_cdc.files.scratch_file import ScratchFile
from strata_cdc.quality.checks.before_after import Edges, split_edges

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS: Final = 64
"""Of the keys of a table, by their hash: files are compared part by part."""
MOST_BYTES: Final = 128 << 20
"""Of edges in memory."""
_WORDS: Final = ("key", "first_image", "first_at", "last_image")
_KEY: Final = np.dtype(
    [(name, np.int64 if name in _WORDS else np.bool_ if name == "is_requested" else np.uint8) for name in Edges._fields]
)


class FileEdges(NamedTuple):
    """A file by the position of its first row and its URL, with all or some of its keys."""

    first: tuple[int, int] | None
    url: str
    edges: Edges


class _WrittenKeys(NamedTuple):
    """Some keys of a file on the disk."""

    first: tuple[int, int] | None
    url: str
    file: ScratchFile
    begin: int
    keys: int


class KeptEdges:
    """The edges of files, by the group whose files are compared with each other; not for several threads.

    Args:
        most_bytes: Edges that stay in memory; more are put into a temporary file.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._held: dict[str, list[FileEdges]] = defaultdict(list)
        self._written: dict[str, dict[int, list[_WrittenKeys]]] = {}
        self._file: ScratchFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, group: str, edges: FileEdges) -> None:
        """Keeps those of a file.

        Raises:
            LakeUnavailableError: The folder for temporary files is full.
        """
        self._held[group].append(edges)
        self._bytes += sum(column.nbytes for column in edges.edges)
        if self._bytes > self._most_bytes:
            self._write()

    def groups(self) -> list[str]:
        """Those of which something was put."""
        return sorted({*self._held, *self._written})

    def parts(self, group: str) -> Iterator[list[FileEdges]]:
        """The files of a group: all keys at once, or key by key in the same part, the edges of a part in memory."""
        if group not in self._written:
            yield self._held[group]
            return
        held: dict[int, list[FileEdges]] = defaultdict(list)
        for file in self._held.get(group, ()):
            for number, edges in split_edges(file.edges, PARTS):
                held[number].append(FileEdges(file.first, file.url, edges))
        written = self._written[group]
        for number in sorted({*held, *written}):
            yield [*held[number], *(self._read(block) for block in written.get(number, ()))]

    def _write(self) -> None:
        """Puts all that is held into the file."""
        if self._file is None:
            self._file = ScratchFile("keys of a check", ", or give the run to Spark (`engine`)")
        for group, files in self._held.items():
            parts = self._written.setdefault(group, defaultdict(list))
            for file in files:
                for number, edges in split_edges(file.edges, PARTS):
                    begin = self._file.append(_records(edges))
                    parts[number].append(_WrittenKeys(file.first, file.url, self._file, begin, len(edges.key)))
        self._held.clear()
        self._bytes = 0

    def _read(self, block: _WrittenKeys) -> FileEdges:
        records = np.frombuffer(block.file.read_range(block.begin, block.keys * _KEY.itemsize), _KEY)
        columns = (np.ascontiguousarray(records[name]) for name in Edges._fields)
        return FileEdges(block.first, block.url, Edges(*columns))


def _records(edges: Edges) -> Any:
    """One record for each key."""
    records = np.empty(len(edges.key), _KEY)
    for name, column in zip(Edges._fields, edges, strict=True):
        records[name] = column
    return records
