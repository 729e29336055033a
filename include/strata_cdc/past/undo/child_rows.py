"""Rows that foreign keys deleted along with rows that a script brings back, where the server did not log it: as a
mirror of their table had them before.
Not here: foreign keys (`foreign_keys.py`), statements (`steps.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.past.undo.foreign_keys import CascadingKey
    from strata_cdc.past.undo.table_steps import PrintedStatement, TableSteps
    from strata_cdc.schema.model.definition import TableName


class ChildRow(Struct, frozen=True):
    """A row that referenced a row which the script brings back."""

    table: TableName
    seq: int
    """The row is as it was after the transaction with this ordinal; the table may still have it."""
    sql: str


class ChildRows:
    """Rows of children, found after all statements of their parents.

    Args:
        keys: The foreign keys.
        lake: Folder or URL of the lake.
        source: The source's name.
    """

    def __init__(self, keys: list[CascadingKey], lake: str, source: str) -> None:
        self._keys = [key for key in keys if not key.is_logged and key.parent is not None]
        self._lake, self._source = lake, source
        self._parents: dict[CascadingKey, set[tuple[Any, ...]]] = {}
        self._first = 1 << 62

    def note(self, written: PrintedStatement) -> None:
        """Looks at a statement: of rows that are brought back, children may be gone."""
        for key in self._keys if written.row else ():
            if key.parent == written.table:
                self._parents.setdefault(key, set()).add(_values(written.row, key.referenced))
                self._first = min(self._first, written.origin.seq)

    def found(self, steps_of: Callable[[TableName], TableSteps]) -> Iterator[ChildRow]:
        """The rows of children, of tables that have a mirror from before the changes.

        Args:
            steps_of: Gives what is known of a table.

        Raises:
            DamagedFileError: The lake has lost files of a mirror.
            LakeUnavailableError: The storage does not answer.
        """
        for key, parents in self._parents.items():
            mirror = Mirror.open_before(self._lake, self._source, key.child, self._first)
            if mirror is None:
                continue
            for row, sql in steps_of(key.child).rows_of_mirror(mirror):
                if _values(row, key.columns) in parents:
                    yield ChildRow(key.child, mirror.position.seq, sql)


def _values(row: dict[str, Any], columns: tuple[str, ...]) -> tuple[Any, ...]:
    folded = {fold_name(name): value for name, value in row.items()}
    return tuple(folded.get(fold_name(name)) for name in columns)
