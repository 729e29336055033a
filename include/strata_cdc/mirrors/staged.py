"""A mirror as it will be after the next commit: its data files are written, its vectors are not yet.
Not here: reducing changes (`reduce.py`), where rows are (`key_index.py`), the commit (`apply.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.mirrors.data_files import read_file_rows, write_rows
from strata_cdc.mirrors.log import now_ms
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.vectors import StoredVector, rows_of, write_vectors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyroaring import BitMap

    from strata_cdc.mirrors.actions import LiveFile
    from strata_cdc.mirrors.key_index import KeyIndex
    from strata_cdc.mirrors.reduce import ReducedBatch
    from strata_cdc.mirrors.table import Mirror


class StagedCommit:
    """What one commit will do, gathered batch by batch: memory for one batch, and for the numbers of dead rows.

    Args:
        mirror: The mirror to which the commit will be added.
        index: The index of its keys.
    """

    def __init__(self, mirror: Mirror, index: KeyIndex) -> None:
        self.mirror = mirror
        """The mirror with the batches so far."""
        self._index = index
        self._before = mirror.snapshot.files
        self._dead: dict[str, BitMap] = {}
        """For files in which rows were deleted since."""
        self.unsynced: list[str] = []
        """Files that must be synced before the commit."""
        self.rows_put = 0
        self.rows_gone = 0
        self._invalid: list[dict[str, Any]] = []
        """The action that gives the mirror the map of values that its columns do not hold, if it had no map."""

    def add(self, reduced: ReducedBatch) -> None:
        """Adds the result of some changes.

        Raises:
            MirrorDivergedError: They do not fit the rows.
            LakeUnavailableError: The storage does not answer.
        """
        mirror = self.mirror
        dead = self._index.find(mirror, reduced.gone)
        put = [reduced.put] if reduced.put.num_rows else []
        added = list(write_rows(mirror.url, mirror.schema, put, self.unsynced, limits=mirror.limits))
        self._invalid = self._invalid or mirror.invalid_column(added)
        files = dict(mirror.snapshot.files)
        for path, rows in dead.items():
            self._kill(files, path, rows)
        files.update({file.path: file for file in added})
        self.mirror = replace(mirror, snapshot=replace(mirror.snapshot, files=files))
        self.rows_put += reduced.put.num_rows
        self.rows_gone += sum(map(len, dead.values()))
        if len(added) == 1:
            self._index.remember(added[0], reduced.put)

    def _kill(self, files: dict[str, LiveFile], path: str, rows: BitMap) -> None:
        file = files[path]
        gone = self._index.dead(self.mirror, file) | rows
        if len(gone) == file.rows:
            del files[path]
            self._dead.pop(path, None)
            return
        # The vector is not written yet: the index gets its content.
        vector = StoredVector("", 0, 0, len(gone))
        files[path] = file.with_vector(vector)
        self._index.learn_dead(path, vector, gone)
        self._dead[path] = gone

    def actions(self) -> list[dict[str, Any]]:
        """The actions of the commit; vectors, or files without dead rows, are written now.

        Raises:
            LakeUnavailableError: The storage refuses.
        """
        now, files = now_ms(), self.mirror.snapshot.files
        ended = [file for path, file in self._before.items() if path not in files or path in self._dead]
        new = [file for path, file in files.items() if path not in self._before and path not in self._dead]
        marked = {path: self._dead[path] for path in files if path in self._dead}
        return [
            *self._invalid,
            *(file.removed(now) for file in ended),
            *(file.added() for file in new),
            *(self._rewritten(marked) if self.mirror.mode is Mode.COPY_ON_WRITE else self._marked(marked)),
        ]

    def _marked(self, dead: Mapping[str, BitMap]) -> list[dict[str, Any]]:
        actions = []
        vectors = write_vectors(self.mirror.url, dead, self.unsynced) if dead else {}
        for path, vector in vectors.items():
            self._index.learn_dead(path, vector, dead[path])
            actions.append(self.mirror.snapshot.files[path].with_vector(vector).added())
        return actions

    def _rewritten(self, dead: Mapping[str, BitMap]) -> list[dict[str, Any]]:
        mirror, actions = self.mirror, []
        for path, gone in dead.items():
            left = read_file_rows(mirror.url, mirror.snapshot.files[path], mirror.exact_schema, rows_of(gone))
            written = write_rows(mirror.url, mirror.schema, left, self.unsynced, limits=mirror.limits)
            actions += [file.added() for file in written]
        return actions
