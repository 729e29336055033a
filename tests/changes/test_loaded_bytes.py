"""Decoding asks for bytes before it reads them: whatever was not asked for is zero here, as in a segment on a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from strata_cdc.binlog.bytes.files import BinlogFile, open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events import undone_rows
from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.changes.plan import Range
from strata_cdc.changes.windows import FlushPace, Window, read_windows
from strata_cdc.errors import StrataError
from tests.binlog.binlogs import MARIADB_LENGTHS, Binlog
from tests.changes.record_mariadb import FOLDER
from tests.interposed import interposed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from strata_cdc.binlog.bytes.ranged_bytes import RangedBytes

FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\xfebin")


class Bytes:
    """Bytes that appear when they are loaded."""

    def __init__(self, source: Any) -> None:
        self.source, self.seen = source, np.zeros_like(source)

    def load(self, begin: int, end: int) -> None:
        self.seen[begin:end] = self.source[begin:end]


def unloaded(binlog: BinlogFile) -> BinlogFile:
    remote = Bytes(binlog.buffer)
    remote.load(0, 300)
    return replace(binlog, buffer=remote.seen, remote=cast("RangedBytes", remote))


def walked(binlog: BinlogFile, begin: int, end: int) -> list[object]:
    """The bytes of all events of a part of a file, and what ended it."""
    seen: list[object] = []
    pace = FlushPace(DecodeLimits(window_bytes=300))
    try:
        for window in read_windows(binlog, [Range(begin, end, begin, 1, 0)], pace=pace):
            if isinstance(window, Window):
                seen += [(window.place(at)[1], window.body(at)) for at in range(len(window))]
    except StrataError as error:
        seen.append(str(error))
    return seen


def small(real: Callable[..., int], self: Any, length: int) -> int:
    """Looks of 32 bytes where there are 64 KB."""
    return real(self, max(length >> 11, 32) if self._binlog.remote is not None else length)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_decoded_has_been_loaded(path: Path) -> None:
    with open_binlog(path) as binlog, interposed(small, (undone_rows.UndoneRows, "_loaded")):
        index = index_events(binlog.buffer, 4, len(binlog.buffer), binlog.format)
        ends = [*index.positions.tolist()[1:], len(binlog.buffer)]
        for begin, end in {(4, ends[-1]), (4, ends[len(ends) // 2]), (ends[len(ends) // 3], ends[len(ends) // 2])}:
            assert walked(unloaded(binlog), begin, end) == walked(binlog, begin, end)


@pytest.mark.parametrize("rows", [1, 40])
def test_rows_that_are_undone_later_than_the_window_are_known(tmp_path: Path, rows: int) -> None:
    binlog = Binlog(version="11.8.2-MariaDB", lengths=MARIADB_LENGTHS)
    for number in (1, 2):
        binlog.domain_gtid(number)
        binlog.query("SAVEPOINT `a`")
        for value in range(rows):
            binlog.table_map()
            binlog.write([value] * 40)
        binlog.query("ROLLBACK TO `a`")
        binlog.table_map()
        binlog.write([7])
        binlog.xid()
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    with open_binlog(path) as opened:
        local = walked(opened, 4, len(opened.buffer))
        assert len(local) == 2 * 6 + 1, "the undone rows and their maps are passed over"
        with interposed(small, (undone_rows.UndoneRows, "_loaded")):
            assert walked(unloaded(opened), 4, len(opened.buffer)) == local
