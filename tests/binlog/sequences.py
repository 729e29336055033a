"""Sequences of events for properties: whole transactions of every kind, and single events anywhere.
Not here: the bytes of an event (`binlogs.py`)."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.binlog.binlogs import LENGTHS, MARIADB_LENGTHS, Binlog

if TYPE_CHECKING:
    from collections.abc import Callable

Move = tuple[str, int]
"""What to add, and a number that tells it from others of its kind."""

PARTS = (5, 9, 11, 13, 14, 17, 29)
"""INTVAR, APPEND_BLOCK, DELETE_FILE, RAND, USER_VAR, BEGIN_LOAD_QUERY, ROWS_QUERY."""

WHOLE: dict[str, tuple[str, ...]] = {
    "rows": ("gtid", "begin", "map", "write", "xid"),
    "more rows": ("gtid", "begin", "part", "map", "other map", "more", "other", "map", "update", "xid"),
    "anonymous": ("anonymous", "begin", "map", "write", "commit"),
    "tagged": ("tagged", "begin", "map", "delete", "xid"),
    "ddl": ("gtid", "ddl"),
    "created from rows": ("gtid", "begin", "ddl", "map", "write", "xid"),
    "no head": ("begin", "map", "write", "xid"),
    "no head ddl": ("ddl",),
    "loaded": ("gtid", "begin", "part", "part", "load", "xid"),
    "lost": ("gtid", "incident"),
    "lost without a head": ("incident",),
    "prepared": ("gtid", "xa start", "map", "write", "xa end", "xa prepare"),
    "decided": ("gtid", "xa commit"),
    "undone": ("gtid", "xa rollback"),
    "one phase": ("gtid", "xa start", "map", "write", "xa end", "one phase"),
    "packed and prepared": ("gtid", "[", "xa start", "map", "write", "xa end", "xa prepare", "]"),
    "rolled back": ("gtid", "begin", "savepoint", "map", "write", "rollback"),
    "dummy": ("gtid", "begin", "map", "more", "dummy", "xid"),
    "short dummy": ("gtid", "begin", "map", "more", "short dummy", "xid"),
    "packed": ("gtid", "[", "begin", "map", "write", "xid", "]"),
    "stored": ("gtid", "{", "begin", "map", "more", "write", "xid", "}"),
    "packed ddl": ("anonymous", "[", "begin", "ddl", "map", "write", "xid", "]"),
    "passed": ("heartbeat", "ignorable", "unknown ignorable", "view"),
}


MARIADB_WHOLE: dict[str, tuple[str, ...]] = {
    "rows": ("group", "annotate", "map", "write v1", "xid"),
    "compressed rows": ("group", "annotate", "map", "packed write", "map", "packed update", "write v1", "xid"),
    "rows in fragments": ("group", "annotate", "map", "fragments", "write v1", "map", "packed fragments", "xid"),
    "a fragment after the other": ("group", "map", "fragment 1", "fragment 2", "commit"),
    "another domain": ("group of 7", "map", "packed delete", "commit"),
    "ddl": ("alone", "ddl"),
    "compressed ddl": ("alone", "packed ddl"),
    "created from rows": ("group", "packed ddl", "map", "write v1", "xid"),
    "prepared": ("group", "map", "write v1", "packed xa end", "xa prepare"),
    "decided": ("alone", "packed xa commit"),
    "undone": ("alone", "xa rollback"),
    "by statement": ("group", "part", "packed ddl", "commit"),
    "between": ("checkpoint", "list", "checkpoint"),
    "lost": ("alone", "incident"),
}


@st.composite
def sequences(
    draw: st.DrawFn, whole: dict[str, tuple[str, ...]] = WHOLE, single: list[str] | None = None
) -> list[Move]:
    """Mostly whole transactions; now and then an event is added, left out, or there twice."""
    moves: list[Move] = []
    for kind in draw(st.lists(st.sampled_from(sorted(whole)), max_size=6)):
        moves += [(name, draw(st.integers(0, 9))) for name in whole[kind]]
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        at = draw(st.integers(0, len(moves)))
        change = draw(st.sampled_from(("add", "add", "add", "drop", "twice")))
        if change == "add":
            moves.insert(at, (draw(st.sampled_from(single or SINGLE)), draw(st.integers(0, 9))))
        elif change == "drop":
            del moves[at : at + 1]
        elif at < len(moves) and moves[at][0] not in "[]{}":
            moves.insert(at, moves[at])
    return moves


def build(moves: list[Move]) -> Binlog:
    """The file; a bracket that nothing closes is closed at the end."""
    binlog = Binlog()
    binlog.previous()
    packed: list[Move] | None = None
    for number, move in enumerate(moves):
        if move[0] in ("[", "{") and packed is None:
            packed = []
        elif move[0] in ("]", "}"):
            _pack(binlog, packed or [], number, compress=move[0] == "]")
            packed = None
        elif packed is not None:
            packed.append(move)
        else:
            _add(binlog, *move, number)
    if packed is not None:
        _pack(binlog, packed, len(moves), compress=True)
    return binlog


def build_mariadb(moves: list[Move]) -> Binlog:
    """The file of a MariaDB server."""
    binlog = Binlog(version="11.8.9-MariaDB", lengths=MARIADB_LENGTHS)
    _MARIADB["list"](binlog, 0, 0)
    for number, move in enumerate(moves):
        _add(binlog, *move, number)
    return binlog


def _pack(binlog: Binlog, moves: list[Move], number: int, *, compress: bool) -> None:
    inner = Binlog.inner()
    for move in moves:
        _add(inner, *move, number)
    binlog.payload(inner, compress=compress)


def _add(binlog: Binlog, name: str, value: int, number: int) -> None:
    if name in _MARIADB:
        _MARIADB[name](binlog, value, number + 1)
    elif name in _QUERIES:
        binlog.query(_QUERIES[name])
    elif name in _EVENTS:
        kind, body, flags = _EVENTS[name]
        binlog.event(kind, body, flags=flags)
    else:
        _BUILT[name](binlog, value, number + 1)


_QUERIES = {
    "begin": "BEGIN",
    "commit": "commit",
    "rollback": "ROLLBACK",
    "savepoint": "SAVEPOINT `s`",
    "ddl": "CREATE TABLE d.w (a INT)",
    "xa start": "XA START X'31',X'',1",
    "xa end": "XA END X'31',X'',1",
    "xa commit": "XA COMMIT X'31',X'',1",
    "xa rollback": "XA ROLLBACK X'31',X'',1",
}
_ROW = b"\0\7\0\0\0"
_DUMMY = b"\1\0\2\0"
_EVENTS = {
    "xid": (16, bytes(8), 0),
    "xa prepare": (38, b"\0" + (1).to_bytes(4, "little") * 2 + bytes(4) + b"1", 0),
    "one phase": (38, b"\1" + (1).to_bytes(4, "little") * 2 + bytes(4) + b"1", 0),
    "dummy": (30, b"\xff" * 6 + _DUMMY, 0),
    "short dummy": (30, b"\xff" * 4 + bytes(2) + _DUMMY, 0),
    "manual dummy": (30, b"\xff" * 3 + bytes(3) + _DUMMY, 0),
    "incident": (26, b"\1\0\4lost", 0),
    "load": (18, bytes(8) + b"\1\0\0\0\0" + bytes(13) + b"d\0LOAD DATA", 0),
    "new load": (12, b"", 0),
    "stop": (3, b"", 0),
    "rotate": (4, b"\4" + bytes(7) + b"binlog.000002", 0),
    "heartbeat": (27, b"binlog.000001", 0),
    "ignorable": (28, b"x", 0x80),
    "unknown": (99, b"x", 0),
    "unknown ignorable": (99, b"x", 0x80),
    "view": (37, b"view:1".ljust(52, b"\0"), 0),
    "broken query": (2, bytes(8) + b"\xff" + bytes(4), 0),
    "zero gtid": (33, bytes(25), 0),
    "bad rows": (30, b"\1\0\0\0\0\0\1\0\2\0\2\1" + _ROW, 0),
}
_BUILT: dict[str, Callable[[Binlog, int, int], object]] = {
    "gtid": lambda binlog, _, number: binlog.gtid(number),
    "anonymous": lambda binlog, *_: binlog.anonymous(),
    "tagged": lambda binlog, value, number: binlog.tagged(number, f"tag_{value}"),
    "map": lambda binlog, *_: binlog.table_map(1),
    "other map": lambda binlog, *_: binlog.table_map(2, table="other"),
    "write": lambda binlog, value, _: binlog.write([value, value + 1]),
    "more": lambda binlog, value, _: binlog.write([value], last=False),
    "other": lambda binlog, value, _: binlog.write([value], 2),
    "update": lambda binlog, value, _: binlog.event(31, _rows(b"\1\1\1" + _ROW + _cell(value))),
    "delete": lambda binlog, value, _: binlog.event(32, _rows(b"\1\1" + _cell(value) + b"\1")),
    "part": lambda binlog, value, _: binlog.event(PARTS[value % len(PARTS)], bytes(9)),
    "previous": lambda binlog, *_: binlog.previous(),
    "format": lambda binlog, *_: binlog.format(LENGTHS),
    "other format": lambda binlog, *_: binlog.format((*LENGTHS[:-1], 9)),
    "cut payload": lambda binlog, *_: binlog.payload(Binlog.inner(), compress=False, claims=9),
    "empty payload": lambda binlog, *_: binlog.payload(Binlog.inner()),
    "payload with an incident": lambda binlog, *_: _pack(
        binlog, [("begin", 0), ("incident", 0), ("xid", 0)], 0, compress=True
    ),
    "payload with a format": lambda binlog, *_: _pack(
        binlog, [("format", 0), ("begin", 0), ("xid", 0)], 0, compress=True
    ),
    "payload with two ends": lambda binlog, *_: _pack(
        binlog, [("begin", 0), ("xid", 0), ("xid", 0)], 0, compress=False
    ),
}

_WRITE = b"\1\0\0\0\0\0\1\0\1\1"
_UPDATE = b"\1\0\0\0\0\0\1\0\1\1\1"


_INSERT = struct.pack("<IBIIIH", 1_700_000_000, 23, 1, 34, 0, 0) + _WRITE + b"\0\7\0\0\0"


def _query_head(text: str) -> tuple[bytes, bytes]:
    return struct.pack("<IIBHH", 7, 0, 1, 0, 0) + b"d\0", text.encode()


_MARIADB: dict[str, Callable[[Binlog, int, int], object]] = {
    "group": lambda binlog, _, number: binlog.domain_gtid(number),
    "group of 7": lambda binlog, _, number: binlog.domain_gtid(number, domain=7),
    "alone": lambda binlog, _, number: binlog.domain_gtid(number, flags=1),
    "gtid of 0": lambda binlog, *_: binlog.domain_gtid(0),
    "short gtid": lambda binlog, *_: binlog.event(162, bytes(12)),
    "annotate": lambda binlog, *_: binlog.event(160, b"INSERT"),
    "checkpoint": lambda binlog, *_: binlog.event(161, struct.pack("<I", 8) + b"binlog.1"),
    "list": lambda binlog, *_: binlog.event(163, bytes(6)),
    "encrypted": lambda binlog, *_: binlog.event(164, bytes(17)),
    "encrypted on the wire": lambda binlog, *_: binlog.event(164, bytes(17), flags=0x80),
    "write v1": lambda binlog, value, _: binlog.event(23, _WRITE + _cell(value)),
    "packed write": lambda binlog, value, _: binlog.compressed(166, _WRITE, _cell(value) + _cell(value + 1)),
    "packed update": lambda binlog, value, _: binlog.compressed(167, _UPDATE, _cell(value) + _cell(value + 1)),
    "packed delete": lambda binlog, value, _: binlog.compressed(168, _WRITE, _cell(value)),
    "packed bad rows": lambda binlog, value, _: binlog.compressed(166, _WRITE, _cell(value)[:-1]),
    "packed too short": lambda binlog, value, _: binlog.compressed(166, _WRITE, _cell(value), claims=9),
    "not packed": lambda binlog, *_: binlog.event(166, _WRITE + b"\x82\0\5hello"),
    "packed ddl": lambda binlog, *_: binlog.compressed(165, *_query_head("CREATE TABLE d.w (a INT)")),
    "packed xa end": lambda binlog, *_: binlog.compressed(165, *_query_head("XA END X'31',X'',1")),
    "packed xa commit": lambda binlog, *_: binlog.compressed(165, *_query_head("XA COMMIT X'31',X'',1")),
    "fragments": lambda binlog, value, _: binlog.fragments(23, _WRITE + _cell(value) + _cell(value + 1), [11, 24, 24]),
    "packed fragments": lambda binlog, value, _: binlog.fragments(
        168, _WRITE + b"\x82\0\5" + zlib.compress(_cell(value)), [2 + value]
    ),
    "one fragment": lambda binlog, value, _: binlog.fragments(25, _WRITE + _cell(value), []),
    "fragment 1": lambda binlog, *_: binlog.fragment(1, 2, _INSERT[:25], size=len(_INSERT)),
    "fragment 2": lambda binlog, *_: binlog.fragment(2, 2, _INSERT[25:]),
    "fragment 2 of 3": lambda binlog, *_: binlog.fragment(2, 3, _INSERT[25:]),
    "fragment 2 too long": lambda binlog, *_: binlog.fragment(2, 2, _INSERT[24:]),
    "fragment 2 too short": lambda binlog, *_: binlog.fragment(2, 2, _INSERT[26:]),
    "fragment 0": lambda binlog, *_: binlog.fragment(0, 0, b""),
    "fragment without size": lambda binlog, *_: binlog.fragment(1, 1, _INSERT),
    "fragment 2 with size": lambda binlog, *_: binlog.fragment(2, 2, _INSERT[25:], size=len(_INSERT)),
    "short fragment": lambda binlog, *_: binlog.event(172, bytes(7)),
    "fragments of a statement": lambda binlog, *_: binlog.fragments(2, b"".join(_query_head("COMMIT")), [20]),
    "fragments of bad rows": lambda binlog, value, _: binlog.fragments(23, _WRITE + _cell(value)[:-1], [20]),
    "packed commit": lambda binlog, *_: binlog.compressed(165, *_query_head("COMMIT")),
}
SINGLE = sorted({*_QUERIES, *_EVENTS, *_BUILT})
MARIADB_SINGLE = sorted({*_MARIADB, *_EVENTS, "begin", "commit", "ddl", "xa end", "xa commit", "map", "other map"})
"""Without what undoes rows: a reader that looks ahead passes over them also where a fault comes in between."""


def _rows(images: bytes) -> bytes:
    return b"\1\0\0\0\0\0\1\0\2\0" + images


def _cell(value: int) -> bytes:
    return b"\0" + value.to_bytes(4, "little")
