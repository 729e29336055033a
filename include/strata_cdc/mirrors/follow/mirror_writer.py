"""Writes one table's mirror: changes, single commits, or a new mirror. The lock is held from the first commit on.
Not here: what is written (`follow_steps.py`, `mirror_updater.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.mirrors.apply import Applier, refuse_foreign
from strata_cdc.mirrors.follow.followed import OvertakenError
from strata_cdc.mirrors.key_index import BOUND_BYTES
from strata_cdc.mirrors.table import Mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack

    import pyarrow as pa

    from strata_cdc.mirrors.changes import MirrorBatch
    from strata_cdc.mirrors.follow.followed import FollowedSource
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.rows_from import RowsFrom
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class MirrorWriter:
    """Writes one table's mirror.

    Args:
        followed: The source.
        table: The table.
        lock: Receives the mirror's lock before the first commit.
        at_once: How many updates share the memory of the process.

    Raises:
        DamagedFileError: The mirror is not complete.
        LakeUnavailableError: The storage does not answer.
    """

    def __init__(self, followed: FollowedSource, table: TableName, lock: ExitStack, at_once: int = 1) -> None:
        self._followed = followed
        self._table = table
        self._lock = lock
        self._is_alone = False
        self._bound_bytes = BOUND_BYTES // at_once
        mirror = self._opened()
        self._applier = None if mirror is None else Applier(mirror, self._bound_bytes)
        self.commits = 0

    @property
    def mirror(self) -> Mirror | None:
        """The mirror as it was opened, or after the last commit; None if there is none."""
        return None if self._applier is None else self._applier.mirror

    @property
    def most_rows(self) -> int:
        """The number of rows whose keys fit into this update's share of the memory."""
        # The index holds the keys of all these rows, at 16 bytes each at most.
        return self._bound_bytes // 16

    def apply(self, batch: MirrorBatch, position: MirrorPosition, applied: str) -> None:
        """Applies changes up to a position; `applied` as for `Mirror.commit`.

        Raises:
            OvertakenError: Another process has written in between.
            MirrorDivergedError: The changes do not fit the rows.
            LakeUnavailableError: The storage does not answer.
        """
        self._be_alone()
        applier = self._applier
        if applier is not None:
            before = applier.mirror
            self._count(before, applier.apply(batch.changes, position, batch.rest, applied))

    def commit(self, change: Callable[[Mirror], Mirror], *, refuses_foreign: bool = True) -> None:
        """Makes one commit on the newest state of the mirror; nothing if there is no mirror.

        Args:
            change: Makes the commit.
            refuses_foreign: Whether the rows must not have been changed by another program.

        Raises:
            OvertakenError: Another process has written in between.
            MirrorDivergedError: Another program has changed the rows.
            LakeUnavailableError: The storage does not answer.
        """
        applier = self._applier
        if applier is None:
            return
        self._be_alone()
        before = applier.mirror
        now = before.refreshed()
        if (now.position, now.snapshot.applied) != (before.position, before.snapshot.applied):
            raise OvertakenError
        if refuses_foreign:
            refuse_foreign(now)
        applier.mirror = change(now)
        self._count(before, applier.mirror)

    def make(
        self, definition: TableDefinition, rows: Iterable[pa.Table], position: MirrorPosition, rows_from: RowsFrom
    ) -> None:
        """Makes the mirror anew; it replaces the present mirror, if there is one.

        Raises:
            OvertakenError: Another process has written in between.
            LakeUnavailableError: The storage does not answer.
        """
        self._be_alone()
        before = self.mirror
        made = Mirror.create(
            self._followed.lake,
            self._followed.source,
            self._table,
            definition,
            rows,
            position,
            mode=self._followed.mode if before is None else before.mode,
            renames=self._followed.renames(self._table),
            replacing=before,
            rows_from=rows_from,
            limits=self._followed.limits,
        )
        self._applier = Applier(made, self._bound_bytes)
        self._count(before, made)

    def _opened(self) -> Mirror | None:
        return Mirror.open(self._followed.lake, self._followed.source, self._table, limits=self._followed.limits)

    def _be_alone(self) -> None:
        """From here on no other process writes to the mirror: it is as it was opened, or this update starts again."""
        if self._is_alone:
            return
        self._lock.enter_context(self._followed.locks.alone(self._table, purpose="updating this mirror"))
        self._is_alone = True
        now, before = self._opened(), self.mirror
        if (now and now.snapshot.version) != (before and before.snapshot.version):
            raise OvertakenError

    def _count(self, before: Mirror | None, after: Mirror) -> None:
        if before is None or after.snapshot.version != before.snapshot.version:
            self.commits += 1
