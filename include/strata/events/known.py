"""What a walk over a stream has met: servers that numbered transactions, and shapes of tables.
Not here: the walk (`scanner.py`), compiling one shape (`shape.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from strata.events.room import grown
from strata.events.shape import RowShape
from strata.gtid.sets import Sid
from strata.kernels.gtid import KEY_BYTES
from strata.kernels.shapes import SHAPE_BODY, SHAPE_FIELDS, SHAPE_JSON, SHAPE_TABLE, SHAPE_WIDTHS, free_place

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata.events.model import TableMap

_UUID_BYTES = 16


class KnownServers:
    """UUIDs and tags, by slot."""

    def __init__(self) -> None:
        self.sids: list[Sid] = []
        self.keys: npt.NDArray[np.uint8] = np.zeros((16, KEY_BYTES), np.uint8)

    @property
    def count(self) -> int:
        """Rows of `keys` that are in use."""
        return len(self.sids)

    def add(self, key: npt.NDArray[np.uint8]) -> None:
        """Takes a key as `kernels.gtid.read_gtid` fills it."""
        if self.count == len(self.keys):
            self.keys = np.concatenate((self.keys, np.zeros_like(self.keys)))
        self.keys[self.count] = key[:KEY_BYTES]
        data = key.tobytes()
        tag = data[_UUID_BYTES + 1 : _UUID_BYTES + 1 + data[_UUID_BYTES]].decode("utf-8", "surrogateescape")
        self.sids.append(Sid(str(UUID(bytes=data[:_UUID_BYTES])), tag))


class KnownShapes:
    """TABLE_MAPs by their bytes, and the tables that they are of. The arrays are as in `kernels/shapes.py`."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, str]] = []
        self.bodies: npt.NDArray[np.uint8] = np.zeros(1 << 12, np.uint8)
        self.shapes: npt.NDArray[np.int64] = np.zeros((1 << 4, SHAPE_FIELDS), np.int64)
        self.places: npt.NDArray[np.int64] = np.zeros(1 << 6, np.int64)
        self.widths: npt.NDArray[np.int64] = np.zeros(1 << 8, np.int64)
        self._slots: dict[tuple[str, str], int] = {}
        self._count = 0

    def add(self, table_map: TableMap) -> None:
        """Takes a TABLE_MAP that is not known yet.

        Raises:
            CorruptEventError: A column has a type that no server writes.
        """
        shape = RowShape.of(table_map)
        name = (table_map.database, table_map.table)
        table = self._slots.setdefault(name, len(self.tables))
        if table == len(self.tables):
            self.tables.append(name)
        at = self._count
        body = np.frombuffer(table_map.body, np.uint8)
        body_begin, widths_begin = (int(self.shapes[at, column]) for column in (SHAPE_BODY, SHAPE_WIDTHS))
        body_end, widths_end = body_begin + len(body), widths_begin + len(shape.widths)
        self.shapes = grown(self.shapes, at + 2)
        self.bodies = grown(self.bodies, body_end)
        self.widths = grown(self.widths, widths_end)
        self.bodies[body_begin:body_end] = body
        self.widths[widths_begin:widths_end] = shape.widths
        self.shapes[at, SHAPE_TABLE], self.shapes[at, SHAPE_JSON] = table, shape.json_columns
        self.shapes[at + 1, SHAPE_BODY], self.shapes[at + 1, SHAPE_WIDTHS] = body_end, widths_end
        self._count += 1
        if len(self.places) < 2 * self._count:
            self.places = np.zeros(2 * len(self.places), np.int64)
            for known in range(at):
                self._place(known)
        self._place(at)

    def _place(self, shape: int) -> None:
        begin, end = int(self.shapes[shape, SHAPE_BODY]), int(self.shapes[shape + 1, SHAPE_BODY])
        self.places[free_place(self.places, self.bodies, begin, end)] = shape + 1
