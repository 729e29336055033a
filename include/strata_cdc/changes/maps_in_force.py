"""The TABLE_MAPs that a walk recognizes by their bytes, each with its row buffer: a hash table by table id.
Not here: how their rows are decoded (`decode_plans.py`), looking them up (`binlog/kernels/stream.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.layout import MapInForce
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.kernels.stream import find_map

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes


class MapsInForce:
    """The TABLE_MAPs that have been seen; a server sometimes changes the id of a table."""

    def __init__(self) -> None:
        self.entries = records(MapInForce, 64)
        """This and the next are arguments of the kernels; they must be read again after any call."""
        self.bodies: Bytes = np.zeros(0, np.uint8)
        self._count = 0

    def add(self, table_id: int, body: bytes, buffer: int, statement: int) -> None:
        """Puts a TABLE_MAP in force for a statement; from now on the walk recognizes it by its bytes.

        Args:
            table_id: The server's number for the table.
            body: Its bytes after the table id and flags.
            buffer: Number of the row buffer.
            statement: Number of the statement, as the walk counts them.
        """
        at = self._index_of(table_id)
        if self.entries[at].key == 0:
            if 2 * (self._count + 1) > len(self.entries):
                self._grow()
                at = self._index_of(table_id)
            self._count += 1
        self.entries[at] = (table_id + 1, buffer, statement, len(self.bodies), len(body))
        self.bodies = np.concatenate((self.bodies, np.frombuffer(body, np.uint8)))

    def forget(self) -> None:
        """Makes the walk stop at each TABLE_MAP again."""
        self.entries[:] = 0
        self._count = 0
        self.bodies = self.bodies[:0]

    def _index_of(self, table_id: int) -> int:
        return int(find_map(self.entries, table_id))

    def _grow(self) -> None:
        known = self.entries[self.entries["key"] != 0]
        self.entries = records(MapInForce, 2 * len(self.entries))
        for entry in known:
            self.entries[self._index_of(int(entry.key) - 1)] = entry
