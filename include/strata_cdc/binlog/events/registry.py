"""What a walk over a stream has read so far: servers that numbered transactions, and TABLE_MAPs.
Not here: the walks (`scanner.py`, `changes/blocks.py`), the widths of one TABLE_MAP's cells (`cell_widths.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from strata_cdc.binlog.events.hidden_fractions import cell_widths
from strata_cdc.binlog.events.scan_buffers import grown
from strata_cdc.binlog.kernels.gtid import IS_DOMAIN, KEY_BYTES, TAG_LENGTH
from strata_cdc.binlog.kernels.layout import KnownMap
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.kernels.table_maps import free_place
from strata_cdc.binlog.kernels.widths import UNSIZED
from strata_cdc.position.sets import DomainWriter, Sid

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.position.sets import Writer

_UUID_BYTES = 16


class ServerRegistry:
    """UUIDs and tags, or domains and servers, by number."""

    def __init__(self) -> None:
        self.sids: list[Writer] = []
        self.keys: npt.NDArray[np.uint8] = np.zeros((16, KEY_BYTES), np.uint8)

    @property
    def count(self) -> int:
        """Rows of `keys` that are in use."""
        return len(self.sids)

    def add(self, key: npt.NDArray[np.uint8]) -> None:
        """Adds a key as `kernels.gtid.read_gtid` fills it."""
        if self.count == len(self.keys):
            self.keys = np.concatenate((self.keys, np.zeros_like(self.keys)))
        self.keys[self.count] = key[:KEY_BYTES]
        data = key.tobytes()
        if data[TAG_LENGTH] == IS_DOMAIN:
            self.sids.append(DomainWriter(*(int.from_bytes(data[at : at + 4], "little") for at in (0, 4))))
            return
        tag = data[_UUID_BYTES + 1 : _UUID_BYTES + 1 + data[_UUID_BYTES]].decode("utf-8", "surrogateescape")
        self.sids.append(Sid(str(UUID(bytes=data[:_UUID_BYTES])), tag))

    def number_of(self, sid: Writer) -> int:
        """The number of a server, which is added if it is new."""
        if sid not in self.sids:
            self.add(np.frombuffer(_key_of(sid).ljust(KEY_BYTES, b"\0"), np.uint8))
        return self.sids.index(sid)


def _key_of(sid: Writer) -> bytes:
    if isinstance(sid, DomainWriter):
        numbers = sid.domain.to_bytes(4, "little") + sid.server.to_bytes(4, "little")
        return numbers.ljust(TAG_LENGTH, b"\0") + bytes([IS_DOMAIN])
    tag = sid.tag.encode()
    return UUID(sid.uuid).bytes + bytes([len(tag)]) + tag


class TableMapRegistry:
    """TABLE_MAPs by their bytes, and the tables that they are of. The arrays are as in
    `binlog/kernels/table_maps.py`."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, str]] = []
        self.bodies: npt.NDArray[np.uint8] = np.zeros(1 << 12, np.uint8)
        self.table_maps = records(KnownMap, 1 << 4)
        self.places: npt.NDArray[np.int64] = np.zeros(1 << 6, np.int64)
        self.widths: npt.NDArray[np.int64] = np.zeros(1 << 8, np.int64)
        self.uncounted: set[tuple[str, str]] = set()
        """Tables with cells whose length some TABLE_MAP does not say: each of their row events counts as one row."""
        self._numbers: dict[tuple[str, str], int] = {}
        self._count = 0
        self._body_end = self._widths_end = 0

    def add(self, table_map: TableMap) -> None:
        """Adds a TABLE_MAP that is not known yet.

        Raises:
            CorruptEventError: A column has a type that no server writes.
        """
        cells = cell_widths(table_map)
        name = (table_map.database, table_map.table)
        table = self._numbers.setdefault(name, len(self.tables))
        if table == len(self.tables):
            self.tables.append(name)
        at = self._count
        body = np.frombuffer(table_map.body, np.uint8)
        self.table_maps = grown(self.table_maps, at + 2)
        begin, first = self._body_end, self._widths_end
        self._body_end, self._widths_end = begin + len(body), first + len(cells.widths)
        self.bodies = grown(self.bodies, self._body_end)
        self.widths = grown(self.widths, self._widths_end)
        self.bodies[begin : self._body_end] = body
        self.widths[first : self._widths_end] = cells.widths
        self.table_maps[at] = begin, first, table, cells.json_columns
        self.table_maps[at + 1] = self._body_end, self._widths_end, 0, 0
        if cells.json_columns == UNSIZED:
            self.uncounted.add(name)
        self._count += 1
        if len(self.places) < 2 * self._count:
            self.places = np.zeros(2 * len(self.places), np.int64)
            for known in range(at):
                self._place(known, int(self.table_maps[known].body), int(self.table_maps[known + 1].body))
        self._place(at, begin, self._body_end)

    def _place(self, number: int, begin: int, end: int) -> None:
        self.places[free_place(self.places, self.bodies, begin, end)] = number + 1
