"""The rows of the lake and of the server for one table, in memory or, if that is too much, in parts of both.
Not here: comparing them (`judge.py`), parts (`parts.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.quality.reconcile.parts import PartedChanges, PartedRows, gathered, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import ExitStack

    from strata_cdc.quality.reconcile.part_columns import Defaults
    from strata_cdc.quality.reconcile.parts import RowPartition
    from strata_cdc.schema.model.definition import TableName

    Held = list[pa.Table] | PartedRows


class SidesOfPart(Struct, frozen=True):
    """The rows of one part; those of a kind are one table, or none."""

    server: list[pa.Table]
    landed: list[pa.Table]
    mirror: list[pa.Table]
    changes: dict[TableName, list[pa.Table]]

    def read_changes(self, name: TableName) -> list[pa.Table]:
        """The changes of a name."""
        return self.changes.get(name, [])


class Sides:
    """Rows of some kinds, gathered one after the other; together no more than some bytes are in memory.

    Args:
        files: Closes what lies on disk.
        columns: The columns by which rows can be divided into parts; none: all rows stay in memory.
        defaults: Of them.
        held_bytes: Of memory.
    """

    def __init__(self, files: ExitStack, columns: tuple[str, ...], defaults: Defaults, held_bytes: int) -> None:
        self._files, self._columns, self._held_bytes = files, columns, held_bytes
        self._make_rows, self._make_changes = partial(PartedRows, columns), partial(PartedChanges, columns, defaults)
        self.defaults = defaults
        self._left = held_bytes
        self.server: Held = []
        self.landed: Held = []
        """Keys of changes that no change table has yet."""
        self.mirror: Held = []
        self.changes: dict[TableName, Held] = {}

    def take_server(self, rows: pa.Table | PartedRows) -> None:
        """Takes the rows that were read from the server; the caller closes them."""
        self.server = rows if isinstance(rows, PartedRows) else [rows]
        self._left -= 0 if isinstance(rows, PartedRows) else rows.nbytes

    def rows(self, batches: Iterable[pa.Table]) -> Held:
        """Takes rows."""
        return self._gathered(batches, self._make_rows)

    def changed(self, batches: Iterable[pa.Table]) -> Held:
        """Takes changes."""
        return self._gathered(batches, self._make_changes)

    def _gathered(self, batches: Iterable[pa.Table], make: Callable[[], PartedRows]) -> Held:
        opened = partial(self._opened, make) if self._columns else None
        rows = gathered(batches, max(self._left, 0), opened)
        if isinstance(rows, list):
            self._left -= sum(batch.nbytes for batch in rows)
        return rows

    @property
    def are_held(self) -> bool:
        """Whether all of them are in memory."""
        return not any(isinstance(side, PartedRows) for side in self._all())

    @property
    def server_rows(self) -> int:
        """Rows of the server."""
        held = self.server
        return held.rows if isinstance(held, PartedRows) else sum(batch.num_rows for batch in held)

    def parts(self) -> Iterator[tuple[RowPartition, SidesOfPart]]:
        """Part by part, what is in memory put into parts, too."""
        names = list(self.changes)
        kinds = [self._parted(side, self._make_rows) for side in (self.server, self.landed, self.mirror)]
        kinds += [self._parted(change, self._make_changes) for change in self.changes.values()]
        self.server, self.landed, self.mirror, self.changes = kinds[0], kinds[1], kinds[2], {}
        for part, tables in parts_of(kinds, self._held_bytes):
            server, landed, mirror, *changes = ([] if table is None else [table] for table in tables)
            yield part, SidesOfPart(server, landed, mirror, dict(zip(names, changes, strict=True)))

    def _parted(self, held: Held, make: Callable[[], PartedRows]) -> PartedRows:
        return held if isinstance(held, PartedRows) else self._opened(make).put_all(held)

    def _opened(self, make: Callable[[], PartedRows]) -> PartedRows:
        return self._files.enter_context(make())

    def _all(self) -> list[Held]:
        return [self.server, self.landed, self.mirror, *self.changes.values()]


def held_rows(held: Held) -> list[pa.Table]:
    """Rows that are in memory.

    Raises:
        TypeError: They are not.
    """
    if isinstance(held, PartedRows):
        raise TypeError("rows in parts were taken for rows in memory")
    return held


def by_schema(parts: Sequence[pa.Table]) -> list[pa.Table]:
    """One table of each kind of columns."""
    schemas = {part.schema.to_string(): part.schema for part in parts}
    return [pa.concat_tables([part for part in parts if part.schema.equals(schema)]) for schema in schemas.values()]
