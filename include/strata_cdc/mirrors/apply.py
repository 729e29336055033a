"""Applies changes to a mirror in one commit. It may be repeated, killed at any point, and run twice at the same time.
Not here: DDL (`apply_ddl.py`), reducing a batch (`reduce.py`), the positions of rows (`key_index.py`)."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.arrow_columns import no_rows
from strata_cdc.errors import MirrorDivergedError, Usage
from strata_cdc.mirrors.data_files import read_some_rows
from strata_cdc.mirrors.key_index import BOUND_BYTES, KeyIndex
from strata_cdc.mirrors.layout import exact_key
from strata_cdc.mirrors.made_again import MADE_AGAIN
from strata_cdc.mirrors.reduce import reduce_changes
from strata_cdc.mirrors.staged import StagedCommit
from strata_cdc.mirrors.vectors import rows_of
from strata_cdc.tables.convert import exact_schema
from strata_cdc.tables.port import CommitConflictError
from strata_cdc.tables.state import only
from strata_cdc.tables.unknown_before import KEY_MAY_BE_NEW
from strata_cdc.tables.verbatim import exact_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.reduce import ReducedBatch
    from strata_cdc.mirrors.table import Mirror

    Pieces = Callable[[], Iterable[pa.Table]]

ATTEMPTS: Final = 8
"""How often a commit is tried again because another commit came first."""


class Applier:
    """Applies changes to one mirror, and keeps in memory what it has read of the keys, for the next batch.

    Args:
        mirror: The mirror, in its current or an earlier state.
        bound_bytes: Bound of the memory for keys.
    """

    def __init__(self, mirror: Mirror, bound_bytes: int = BOUND_BYTES) -> None:
        self.mirror = mirror
        self._bound_bytes = bound_bytes
        self._index = KeyIndex(_named_by(mirror), mirror.exact_schema, bound_bytes)
        self._for = mirror.identity, mirror.snapshot.schema_text, _named_by(mirror)

    def apply(
        self, changes: pa.Table, position: MirrorPosition, rest: Pieces = tuple, applied: str | None = None
    ) -> Mirror:
        """Brings the mirror to a position, in one commit.

        Args:
            changes: All changes of the table after the mirror's position and up to `position`, of one schema version,
                in the columns of the mirror's definition, in any order. Changes that the mirror already has are
                ignored.
            position: The mirror's position after these changes.
            rest: Used if the changes do not fit into memory: returns the changes that come after `changes` in the
                stream, in order, a batch at a time. It is called once for each attempt.
            applied: The published files that the rows come from then, as for `Mirror.commit`.

        Returns:
            The new mirror; the same mirror if it is already at the position, or if there is no change.

        Raises:
            MirrorDivergedError: The changes do not fit the rows, or another program changed the rows.
            Usage: An image lacks columns whose values are not known.
            LakeUnavailableError: The storage does not answer, or other commits always came first.
        """
        for _ in range(ATTEMPTS):
            self._look_again()
            try:
                self._attempt(chain([changes], rest()), position, applied)
            except CommitConflictError:
                continue
            return self.mirror
        raise CommitConflictError

    def _look_again(self) -> None:
        self.mirror = self.mirror.refreshed()
        refuse_foreign(self.mirror)
        seen = self.mirror.identity, self.mirror.snapshot.schema_text, _named_by(self.mirror)
        if seen != self._for:
            self._index = KeyIndex(_named_by(self.mirror), self.mirror.exact_schema, self._bound_bytes)
            self._for = seen

    def _attempt(self, chunks: Iterable[pa.Table], position: MirrorPosition, applied: str | None) -> None:
        mirror = self.mirror
        if position.seq <= mirror.position.seq:
            return
        staged, count = StagedCommit(mirror, self._index), 0
        for chunk in chunks:
            fresh = exact_changes(only(chunk, pc.greater(chunk["_seq"], mirror.position.seq)), mirror.definition)
            if fresh.num_rows:
                count += fresh.num_rows
                rows_under = partial(self._rows_under, staged)
                _add(staged, reduce_changes(fresh, mirror.definition, exact_key(mirror.definition), rows_under))
        if count:
            self.mirror = mirror.commit(
                staged.actions(),
                position,
                operation="MERGE",
                about=_counts(staged, count),
                applied=applied,
                unsynced=staged.unsynced,
            )

    def _rows_under(self, staged: StagedCommit, keys: pa.Table) -> pa.Table:
        """The mirror's rows that have one of these keys; all rows of a sequence, which has none or one."""
        mirror = staged.mirror
        if mirror.definition.sequence:
            return pa.concat_tables([no_rows(mirror.exact_schema), *mirror.exact_batches()])
        rows_by_file = self._index.find_known(mirror, keys)
        files = mirror.snapshot.files
        schema = mirror.exact_schema
        parts = [read_some_rows(mirror.url, files[path], schema, rows_of(rows)) for path, rows in rows_by_file.items()]
        return pa.concat_tables([no_rows(schema), *parts])


def _add(staged: StagedCommit, reduced: ReducedBatch) -> None:
    try:
        staged.add(reduced)
    except MirrorDivergedError as error:
        if reduced.may_have_new_keys:
            raise Usage(f"{error.message}; {KEY_MAY_BE_NEW}") from error
        raise


def _named_by(mirror: Mirror) -> tuple[str, ...]:
    return exact_key(mirror.definition) or tuple(exact_schema(mirror.definition).names)


def _counts(staged: StagedCommit, changes: int) -> dict[str, str]:
    """Numbers that a commit has, for people."""
    return {
        "strata.changes": str(changes),
        "strata.rows_put": str(staged.rows_put),
        "strata.rows_gone": str(staged.rows_gone),
    }


def refuse_foreign(mirror: Mirror) -> None:
    """Refuses a mirror whose rows another program has changed; moving rows to other files is not a change.

    Raises:
        MirrorDivergedError: Another program has changed the rows.
    """
    commit = next((commit for commit in mirror.snapshot.foreign if commit.changes_rows), None)
    if commit is not None:
        raise MirrorDivergedError(
            f"another program has changed the mirror: version {commit.version}, {commit.operation}",
            source=mirror.source,
            table=str(mirror.table),
            file=mirror.url,
            remedy=f"Restore the table to version {commit.version - 1} and copy it where it may be changed, or "
            f"{MADE_AGAIN}",
        )
