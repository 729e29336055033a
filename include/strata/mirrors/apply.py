"""Changes applied to a mirror: one commit, which may be repeated, killed anywhere, and raced for.
Not here: DDL (`turn.py`), what a batch amounts to (`reduce.py`), where rows lie (`key_index.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import MirrorDivergedError
from strata.mirrors.data_files import read_file_rows, read_some_rows, write_rows
from strata.mirrors.key_index import KeyIndex
from strata.mirrors.log import now_ms
from strata.mirrors.modes import Mode
from strata.mirrors.reduce import reduce_changes
from strata.mirrors.vectors import rows_of, write_vectors
from strata.tables.port import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyroaring import BitMap

    from strata.mirrors.position import MirrorPosition
    from strata.mirrors.table import Mirror

ATTEMPTS: Final = 8
"""How often a commit is begun anew because another one came first."""


class Applier:
    """Applies changes to one mirror, and keeps what it has learnt of its keys for the next batch.

    Args:
        mirror: The mirror, as it is or was.
    """

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self._index = KeyIndex(_named_by(mirror), mirror.schema)
        self._for = mirror.identity, mirror.snapshot.schema_text, _named_by(mirror)

    def apply(self, changes: pa.Table, position: MirrorPosition) -> Mirror:
        """Brings the mirror to a position.

        Args:
            changes: All changes of the table behind the mirror's position up to this one, of one schema version, in
                the shape of the mirror's definition, in any order. Those that the mirror has already are passed over.
            position: Where it is with them.

        Returns:
            The mirror; unchanged if it is there already, or if there is no change.

        Raises:
            MirrorDivergedError: The changes do not fit the rows, or another program changed these.
            Usage: An image lacks columns that are known from nowhere.
            LakeUnavailableError: The storage does not answer, or others kept coming first.
        """
        return self.committed(lambda: self._attempt(changes, position))

    def committed(self, attempt: Callable[[], None]) -> Mirror:
        """Tries something on the newest state of the mirror until no other commit comes in between.

        Raises:
            MirrorDivergedError: Another program has changed the mirror's rows.
            CommitConflictError: Others kept coming first.
        """
        for _ in range(ATTEMPTS):
            self._look_again()
            try:
                attempt()
            except CommitConflictError:
                continue
            return self.mirror
        raise CommitConflictError

    def _look_again(self) -> None:
        self.mirror = self.mirror.refreshed()
        refuse_foreign(self.mirror)
        seen = self.mirror.identity, self.mirror.snapshot.schema_text, _named_by(self.mirror)
        if seen != self._for:
            self._index, self._for = KeyIndex(_named_by(self.mirror), self.mirror.schema), seen

    def _attempt(self, changes: pa.Table, position: MirrorPosition) -> None:
        mirror = self.mirror
        if position.seq <= mirror.position.seq:
            return
        fresh = changes.filter(pc.greater(changes["_seq"], mirror.position.seq))
        if fresh.num_rows == 0:
            return
        reduced = reduce_changes(fresh, mirror.definition, mirror.key, self._rows_under)
        dead = self._index.find(mirror, reduced.gone)
        added = list(write_rows(mirror.url, mirror.schema, [reduced.put] if reduced.put.num_rows else []))
        actions = self._dying(mirror, dead) + [file.added() for file in added]
        self.mirror = mirror.commit(actions, position, operation="MERGE", about=_counts(reduced.put, dead, fresh))
        if len(added) == 1:
            self._index.remember(added[0], reduced.put)

    def _rows_under(self, keys: pa.Table) -> pa.Table:
        """The rows of those of the keys that the mirror has."""
        mirror = self.mirror
        found = self._index.find_known(mirror, keys)
        files = mirror.snapshot.files
        parts = [read_some_rows(mirror.url, files[path], mirror.schema, rows_of(rows)) for path, rows in found.items()]
        return pa.concat_tables([mirror.schema.empty_table(), *parts])

    def _dying(self, mirror: Mirror, dead: dict[str, BitMap]) -> list[dict[str, Any]]:
        """Actions that end some rows of some files."""
        now = now_ms()
        actions, marked = [], {}
        for path, rows in dead.items():
            file = mirror.snapshot.files[path]
            actions.append(file.removed(now))
            gone = self._index.dead(mirror, file) | rows
            if len(gone) == file.rows:
                continue
            if mirror.mode is Mode.COPY_ON_WRITE:
                left = read_file_rows(mirror.url, file, mirror.schema, rows_of(gone))
                actions += [one.added() for one in write_rows(mirror.url, mirror.schema, left)]
            else:
                marked[path] = gone
        if marked:
            for path, vector in write_vectors(mirror.url, marked).items():
                self._index.learn_dead(path, vector, marked[path])
                actions.append(mirror.snapshot.files[path].with_vector(vector).added())
        return actions


def _named_by(mirror: Mirror) -> tuple[str, ...]:
    return mirror.key or tuple(mirror.schema.names[:-1])


def _counts(put: pa.Table, dead: dict[str, BitMap], changes: pa.Table) -> dict[str, str]:
    """What a commit says of itself, for people."""
    return {
        "strata.changes": str(changes.num_rows),
        "strata.rows_put": str(put.num_rows),
        "strata.rows_gone": str(sum(map(len, dead.values()))),
    }


def refuse_foreign(mirror: Mirror) -> None:
    """Goes on from a mirror only if nobody else has changed its rows; moving them to other files is no change.

    Raises:
        MirrorDivergedError: Somebody has.
    """
    found = next((one for one in mirror.snapshot.foreign if one.changes_rows), None)
    if found is not None:
        raise MirrorDivergedError(
            f"another program has changed the mirror: version {found.version}, {found.operation}",
            source=mirror.source,
            table=str(mirror.table),
            file=mirror.url,
            remedy=f"Restore the table to version {found.version - 1} and copy it where it may be changed, or dump it "
            "again (`strata dump`).",
        )
