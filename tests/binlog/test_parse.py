from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.codes import EventType, FieldType
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.gtid import encode_gtid_set, parse_gtid, parse_previous_gtids
from strata_cdc.binlog.events.model import TableMap
from strata_cdc.binlog.events.parse import (
    parse_event,
    parse_heartbeat,
    parse_incident,
    parse_rotate,
    parse_rows_query,
    parse_view_change,
    parse_xa_prepare,
)
from strata_cdc.binlog.events.query import parse_query
from strata_cdc.binlog.events.table_map import parse_table_map
from strata_cdc.binlog.kernels.gtid import GTID_BYTES, KEY_NUMBER, read_gtid
from strata_cdc.errors import CorruptEventError, StrataError
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.position.sets import GtidSet, Sid
from tests.binlog.binlogs import LENGTHS, SERVER

MIXED = Path(__file__).parent / "golden" / "mixed.binlog"
FORM = FormatDescription(4, "9.7.4", LENGTHS, has_checksum=False)


def events_of(kind: EventType) -> list[tuple[int, int]]:
    with open_binlog(MIXED) as binlog:
        index = index_events(binlog.buffer, 4, len(binlog.buffer), binlog.format)
        chosen = index.types == kind
        return list(zip(index.positions[chosen].tolist(), index.lengths[chosen].tolist(), strict=True))


def parsed(kind: EventType) -> list:
    with open_binlog(MIXED) as binlog:
        return [parse_event(binlog.buffer, at, length, binlog.format) for at, length in events_of(kind)]


def test_the_kernel_and_python_read_the_same_gtids():
    with open_binlog(MIXED) as binlog:
        for kind in (EventType.GTID, EventType.TAGGED_GTID):
            for at, length in events_of(kind):
                event = parse_event(binlog.buffer, at, length, binlog.format)
                key = np.zeros(GTID_BYTES, np.uint8)
                stamp = read_gtid(binlog.buffer, at + 19, at + length - 4, kind, key)
                number = int.from_bytes(key[KEY_NUMBER:].tobytes(), "little")
                tag = key[17 : 17 + key[16]].tobytes().decode()
                assert (stamp, number, tag) == (event.immediate_commit_timestamp, event.gtid.gno, event.gtid.sid.tag)
                assert key[:16].tobytes().hex() == event.gtid.sid.uuid.replace("-", "")
                assert event.transaction_length > length
                assert event.ran_first_on == Flavour.mysql(90704)


@pytest.mark.parametrize("kind", [EventType.GTID, EventType.TAGGED_GTID])
def test_gtid_events_cut_at_every_byte(kind):
    with open_binlog(MIXED) as binlog:
        at, length = events_of(kind)[0]
        body = binlog.buffer[at + 19 : at + length - 4].tobytes()
        for size in range(len(body)):
            buffer = np.frombuffer(bytearray(body[:size]) + bytearray(b"\xff" * 60), np.uint8)
            stamp = read_gtid(buffer, 0, size, kind, np.zeros(GTID_BYTES, np.uint8))
            try:
                event = parse_gtid(body[:size], kind)
            except CorruptEventError:
                continue
            assert stamp == event.immediate_commit_timestamp or kind == EventType.TAGGED_GTID or size < 49


def test_gtids_of_all_ages():
    head = b"\1" + bytes.fromhex(SERVER.replace("-", "")) + struct.pack("<q", 7)
    assert parse_gtid(head).gtid.gno == 7
    clock = head + b"\2" + struct.pack("<qq", 4, 5)
    assert (parse_gtid(clock).last_committed, parse_gtid(clock).sequence_number) == (4, 5)
    stamp = clock + ((1 << 55) | 99).to_bytes(7, "little") + (88).to_bytes(7, "little") + b"\xfc\0\2"
    event = parse_gtid(stamp + (80036).to_bytes(4, "little"))
    assert (event.immediate_commit_timestamp, event.original_commit_timestamp) == (99, 88)
    assert (event.transaction_length, event.ran_first_on) == (512, Flavour.mysql(80036))


SETS = st.dictionaries(
    st.sampled_from([Sid(SERVER), Sid(SERVER, "tag_1"), Sid(SERVER.replace("3", "4", 1)), Sid(SERVER, "b" * 32)]),
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=6),
).map(GtidSet.from_spans)


@given(SETS)
def test_sets_keep_their_binary_form(gtid_set):
    assert parse_previous_gtids(encode_gtid_set(gtid_set)).gtid_set == gtid_set


def test_a_set_without_tags_has_the_form_that_old_servers_know():
    data = encode_gtid_set(GtidSet.parse(f"{SERVER}:1-5:7"))
    assert data[:8] == (1).to_bytes(8, "little")
    assert data[24:] == struct.pack("<qqqqq", 2, 1, 6, 7, 8)


@given(SETS, st.data())
def test_previous_gtids_cut_anywhere_are_corrupt(gtid_set, data):
    encoded = encode_gtid_set(gtid_set)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptEventError):
        parse_previous_gtids(encoded[:cut])


def query(variables: bytes = b"", database: bytes = b"d", text: bytes = b"X") -> bytes:
    return struct.pack("<IIBHH", 1, 0, len(database), 0, len(variables)) + variables + database + b"\0" + text


ALL_VARIABLES = b"".join(
    (
        b"\0" + bytes(4),
        b"\1" + (0x100004).to_bytes(8, "little"),
        b"\x02\3std\0",
        b"\3" + bytes(4),
        b"\4" + struct.pack("<HHH", 33, 45, 255),
        b"\5\3UTC",
        b"\6\3std",
        b"\7" + bytes(2),
        b"\x08" + struct.pack("<H", 8),
        b"\x09" + (5).to_bytes(8, "little"),
        b"\x0a" + bytes(4),
        b"\x0b\4root\1h",
        b"\x0c\2a\0bb\0",
        b"\x0d" + bytes(3),
        b"\x10\1",
        b"\x11" + (77).to_bytes(8, "little"),
        b"\x12" + struct.pack("<H", 255),
        b"\x13\0",
        b"\x14\0",
    )
)


def test_all_status_variables():
    found = parse_query(query(ALL_VARIABLES, text="CREATE TABLE ü".encode()), FORM)
    assert (found.database, found.statement.decode()) == ("d", "CREATE TABLE ü")
    context = found.context
    assert (context.sql_mode, context.ddl_xid, context.table_map_for_update) == (0x100004, 77, 5)
    assert (context.client_charset, context.connection_collation, context.server_collation) == (33, 45, 255)
    assert (context.database_collation, context.utf8mb4_collation) == (8, 255)
    assert context.explicit_defaults_for_timestamp is True


def test_an_unknown_status_variable_does_not_break_the_reader():
    found = parse_query(query(b"\1" + bytes(8) + b"\x7fwhatever"), FORM)
    assert (found.context.sql_mode, found.statement) == (0, b"X")


def test_too_many_databases_are_not_listed():
    assert parse_query(query(b"\x0c\xfe" + b"\1" + bytes(8)), FORM).context.sql_mode == 0


@pytest.mark.parametrize("cut", range(len(query(ALL_VARIABLES)) - 1))
def test_queries_cut_at_every_byte(cut):
    with pytest.raises(CorruptEventError):
        parse_query(query(ALL_VARIABLES)[:cut], FORM)


def test_small_events():
    assert parse_rotate(b"\4" + bytes(7) + b"binlog.000002").file == "binlog.000002"
    assert parse_rows_query(b"\5SELECT").statement == b"SELECT"
    assert parse_incident(b"\1\0\4lost").message == "lost"
    assert parse_incident(b"\1\0").message == ""
    assert parse_heartbeat(b"binlog.000002").file == "binlog.000002"
    v2 = parse_heartbeat(b"\1\3b.1\2\3\xfc\0\2\0", EventType.HEARTBEAT_V2)
    assert (v2.file, v2.offset) == ("b.1", 512)
    assert parse_view_change(b"15:3".ljust(40, b"\0") + (9).to_bytes(8, "little")).sequence_number == 9
    prepared = parse_xa_prepare(b"\1" + struct.pack("<iII", -1, 2, 1) + b"abc")
    assert (prepared.gtrid, prepared.bqual, prepared.one_phase, prepared.format_id) == (b"ab", b"c", True, -1)


def test_table_maps_of_a_server_with_minimal_and_full_metadata():
    minimal, full = (parsed(EventType.TABLE_MAP)[at] for at in (0, 1))
    assert isinstance(minimal, TableMap)
    types = " ".join(FieldType(code).name for code in minimal.types)
    assert types == "LONG VARCHAR ENUM SET NEWDECIMAL GEOMETRY VECTOR YEAR BIT STRING JSON DATETIME2"
    assert minimal.metadata == (0, 1200, 1, 1, 10 << 8 | 2, 4, 4, 0, 1 << 8 | 3, 1020, 4, 3)
    assert (minimal.names, minimal.labels, minimal.primary_key, minimal.visible) == (None, None, None, None)
    assert minimal.unsigned == (False, False, False, False, True, False, False, True, False, False, False, False)
    assert minimal.collations == (0, 255, 0, 0, 0, 0, 63, 0, 0, 255, 0, 0)
    assert (minimal.geometry_types, minimal.vector_dimensions) == ((0,), (3,))
    assert full.names == ("a", "b", "c", "e", "f", "g", "v", "y", "bb", "ch", "j", "dt")
    assert full.labels[2:4] == ((b"x", b"y"), (b"p", b"q"))
    assert full.collations[2:4] == (255, 255)
    assert (full.primary_key, full.visible) == ((0,), (True,) * 12)


def table_map(codes: bytes, metadata: bytes, optional: bytes = b"") -> bytes:
    head = bytes(8) + b"\1d\0\1t\0" + bytes([len(codes)]) + codes + bytes([len(metadata)]) + metadata
    return head + bytes((len(codes) + 7) // 8) + optional


def test_lengths_of_long_chars():
    found = parse_table_map(table_map(b"\xfe\xfe\xfe", b"\xfe\x14\xee\xfc\xce\xfc"))
    assert found.metadata == (20, 252 | 256, 252 | 768)
    assert set(found.types) == {FieldType.STRING}


def test_optional_metadata_in_its_other_forms():
    columns_charset = b"\3\4\xfc\xff\0\x3f"
    default_and_exceptions = b"\2\3\x08\1\x3f"
    unknown = b"\x63\2hi"
    key_with_prefix = b"\x09\4\0\0\1\x0a"
    codes, metadata = b"\x0f\x0f", b"\x0a\0\x0a\0"
    assert parse_table_map(table_map(codes, metadata, columns_charset + unknown)).collations == (255, 63)
    found = parse_table_map(table_map(codes, metadata, default_and_exceptions + key_with_prefix))
    assert (found.collations, found.primary_key) == ((8, 63), (0, 1))
    assert parse_table_map(table_map(codes, metadata)).collations is None
    assert parse_table_map(table_map(b"\3", b"")).unsigned is None


def test_mariadb_counts_geometries_among_the_charsets():
    """Recorded from 11.8 with MINIMAL metadata: collations have lengths of their own, and column 12 is a POINT."""
    body = bytes.fromhex(
        "18000000000001000164000174001503080d0dfefefe8d8c8c8dfffefefefc10f6040f0f1df701f801fe0941"
        "1f02042d0104fe10fe04fe100405000a020450000c00feff1f01017c02133f00fc000801fc000902fc0009092e0afc2e04070101"
    )
    found = parse_table_map(body, vendor=Vendor.MARIADB)
    assert found.types[6:16] == (254, 141, 140, 140, 141, 255, 254, 254, 254, 252)
    assert found.collations == (0, 0, 0, 0, 0, 0, 2048, 2304, 2304, 63, 63, 63, 63, 63, 63, 46, 0, 0, 0, 1070, 63)
    assert [at for at, unsigned in enumerate(found.unsigned) if unsigned] == [1, 2, 3, 17, 18]


@pytest.mark.parametrize(
    "body",
    [
        table_map(b"\3", b"\0"),
        table_map(b"\x0f", b"\0"),
        table_map(b"\3\3\3\3\3\3\3\3\3", b"", b"\1\1\0"),
        table_map(b"\x0f", b"\0\1", b"\3\2\1\1"),
        table_map(b"\x0f", b"\0\1", b"\2\3\x08\5\5"),
        table_map(b"\3", b"", b"\4\4\1a\1b"),
        table_map(b"\3", b"", b"\x08\1\7"),
        table_map(b"\xfe\xfe", b"\xf7\1\xf7\1", b"\6\4\1\2ab"),
        table_map(b"\3", b"", b"\4\x20\1a"),
        # Names are utf8mb3, whatever the charset of the table.
        table_map(b"\3", b"", b"\4\2\1\xf3"),
        table_map(b"\3", b"").replace(b"\1t\0", b"\1\xf3\0"),
    ],
)
def test_table_maps_that_contradict_themselves(body):
    with pytest.raises(CorruptEventError):
        parse_table_map(body)


def test_a_table_map_cut_at_every_byte():
    with open_binlog(MIXED) as binlog:
        at, length = events_of(EventType.TABLE_MAP)[1]
        body = binlog.buffer[at + 19 : at + length - 4].tobytes()
    for size in range(len(body)):
        try:
            found = parse_table_map(body[:size])
        except CorruptEventError:
            continue
        assert found.names in (None, ("a", "b", "c", "e", "f", "g", "v", "y", "bb", "ch", "j", "dt"))


@given(st.sampled_from([2, 4, 16, 18, 19, 26, 27, 29, 33, 34, 35, 37, 38, 40, 41, 42]), st.binary(max_size=120))
def test_any_bytes_are_an_event_or_an_error_of_ours(kind, body):
    event = struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body), 0, 0) + body
    buffer = np.frombuffer(bytearray(event), np.uint8)
    with contextlib.suppress(StrataError):
        parse_event(buffer, 0, len(event), FORM)
