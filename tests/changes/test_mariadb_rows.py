"""Rows of MariaDB: of every column type and under every row image, what is decoded is what SELECT gives."""

from __future__ import annotations

import random
from base64 import b64encode
from ipaddress import IPv4Address
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows
from strata_cdc.changes.select.keys import select_key
from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.errors import UnsupportedEventError
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from tests.changes.live import Live, changes, replayed, steps
from tests.changes.test_select import connected, selected
from tests.changes.test_types import CASES, ESPECIALLY
from tests.mariadb_server import PREFIXES, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql

RANDOM = random.Random(20261126)
METADATA = ("NO_LOG", "MINIMAL", "FULL")


def _addresses() -> list[bytes]:
    """Of 16 bytes, with zeros anywhere and at the end."""
    words = [[RANDOM.choice([0, 0, 1, 0xFFFF, RANDOM.getrandbits(16)]) for _ in range(8)] for _ in range(60)]
    mapped = [bytes(10) + b"\xff\xff" + RANDOM.randbytes(4), bytes(12) + RANDOM.randbytes(4), bytes(16)]
    return [*mapped, *(b"".join(word.to_bytes(2, "big") for word in one) for one in words)]


def _short_addresses() -> list[str]:
    return [str(IPv4Address(RANDOM.getrandbits(32))) for _ in range(20)]


def _uuids() -> list[str]:
    """Of versions 1, 4 and 7, which the server keeps in several orders, and with zeros at the end."""
    found = [UUID(int=RANDOM.getrandbits(128), version=version) for version in (1, 3, 4, 5) for _ in range(10)]
    found += [UUID(int=(RANDOM.getrandbits(128) & ~(0xF000 << 64)) | 0x7000 << 64) for _ in range(10)]
    ends = [UUID(bytes=one.bytes[:-size] + bytes(size)) for one in found[:16] for size in (1, 4, 8)]
    return [str(one) for one in (*found, *ends, UUID(int=0), UUID(int=2**128 - 1))]


def _texts(longest: int) -> list[str]:
    """Below and above the size from which on values are compressed."""
    return [
        "",
        "a",
        "\0",
        "ü" * 99,
        *("".join(RANDOM.choices("ab ü😀", k=RANDOM.randint(0, longest))) for _ in range(20)),
    ]


def _blobs(longest: int) -> list[bytes]:
    return [b"", b"\0", bytes(longest), *(RANDOM.randbytes(RANDOM.randint(0, longest)) for _ in range(10))]


def _stamps(fsp: int, last_year: int) -> list[str]:
    found = ["1970-01-01 00:00:01", f"{last_year}-12-31 23:59:59.987654"]
    for _ in range(20):
        year, month, day = RANDOM.randint(1971, last_year), RANDOM.randint(1, 12), RANDOM.randint(1, 28)
        found.append(f"{year}-{month:02}-{day:02} 12:{RANDOM.randint(0, 59):02}:34.{RANDOM.randint(0, 999999):06}")
    return [one[: 20 + fsp if fsp else 19] for one in found]


OWN: dict[str, tuple[str, list[object]]] = {
    "uuid": ("uuid", list(_uuids())),
    "inet4": ("inet4", ["0.0.0.0", "255.255.255.255", "1.2.3.0", *_short_addresses()]),
    "inet6": ("inet6", list(_addresses())),
    "year2": ("year(2)", [69, 70, 0, 99]),
    "decimal_65_38": ("decimal(65,38)", ["0", "-1.00000000000000000000000000000000000001", "9" * 27 + "." + "9" * 38]),
    "time6_longest": ("time(6)", ["838:59:59.999999", "-838:59:59.999999"]),
    "timestamp1_first": ("timestamp(1) null", ["1970-01-01 00:00:00.5"]),
    "json": ("json", ['{"b":  [1.0, 1e300, "ä"], "a": {}}', " 3", '"x"']),
    "varchar_compressed": ("varchar(700) compressed", _texts(700)),
    "varchar_latin1_compressed": ("varchar(90) compressed character set latin1", ["", "é" * 90, "a"]),
    "varchar_utf16_compressed": ("varchar(400) compressed character set utf16", _texts(400)),
    "tinytext_compressed": ("tinytext compressed", _texts(60)),
    "text_compressed": ("text compressed", _texts(700)),
    "mediumtext_compressed": ("mediumtext compressed", [*_texts(60), "ab" * 70000]),
    "longtext_compressed": ("longtext compressed", [*_texts(60), "ü" * 40000]),
    "varbinary_compressed": ("varbinary(700) compressed", _blobs(700)),
    "blob_compressed": ("blob compressed", _blobs(3000)),
    "longblob_compressed": ("longblob compressed", _blobs(90000)),
}  # fmt: skip
INVALID = {name: case for name, case in CASES.items() if "invalid" in name}
OLD = {f"{kind}{fsp}" for kind in ("datetime", "timestamp", "time") for fsp in range(7)}
"""Cases whose columns may be in the format of MariaDB 5.3."""
VECTORS = ["VEC_FromText('[1,2.5,-3e10]')", "VEC_FromText('[0.1,0.2,0.3]')"]
GEOMETRIES = [expression.replace(", 'axis-order=long-lat'", "") for expression in ESPECIALLY["geometry"]]
EXPRESSIONS = {"vector": VECTORS, "geometry": GEOMETRIES}


def _cases(version: str) -> dict[str, tuple[str, list[object]]]:
    last_year = 2105 if version == "11.8" else 2037
    stamps = {f"timestamp{fsp}": (f"timestamp({fsp}) null", list(_stamps(fsp, last_year))) for fsp in range(7)}
    cases = {name: case for name, case in {**CASES, **stamps, **OWN}.items() if "invalid" not in name}
    if version == "10.11":
        del cases["vector"]
    return cases


ALL = {version: _cases(version) for version in PREFIXES}


class MariadbRows:
    """A server with a database, and what it can do."""

    def __init__(self, live: Live, version: str) -> None:
        self.live = live
        self.version = version
        self.cases = ALL[version]
        self.images = ("FULL", "MINIMAL", "NOBLOB", *(["FULL_NODUP"] if version == "11.8" else []))


@pytest.fixture(scope="module", params=PREFIXES)
def mariadb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbRows]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param, "--character-set-server=utf8mb4") as server:
        yield MariadbRows(Live(server), request.param)


def _create(live: Live, table: str, column_type: str, *, old: bool = False) -> None:
    live.run(f"SET GLOBAL mysql56_temporal_format = {'OFF' if old else 'ON'}")
    live.run(f"CREATE TABLE `{table}` (id INT PRIMARY KEY AUTO_INCREMENT, v {column_type})")
    live.run("SET GLOBAL mysql56_temporal_format = ON")


@pytest.mark.parametrize("metadata", METADATA)
def test_values_of_every_type_are_those_that_select_gives(mariadb, metadata):
    live, cases = mariadb.live, mariadb.cases
    tables = {f"{name}_{metadata}": name for name in cases}
    tables |= {f"old_{name}_{metadata}": name for name in OLD}
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    with live.recorded() as files:
        for table, name in tables.items():
            column_type, values = cases[name]
            _create(live, table, column_type, old=table.startswith("old_"))
            for wrapped in ("OFF", "ON"):
                live.run(f"SET column_compression_zlib_wrap = {wrapped}")
                live.insert(table, "v", [(None,), *((value,) for value in values)])
            for expression in EXPRESSIONS.get(name, ()):
                live.run(f"INSERT INTO `{table}` (v) VALUES ({expression})")
    definitions = {TableName(live.database, table): live.definition(table) for table in tables}
    found = changes(files[0], definitions)
    for table, name in tables.items():
        rows = replayed([change for change in found if change["table"] == table])
        assert rows == live.truth(table, definitions[TableName(live.database, table)]), name
        assert len(rows) > 1, name


@st.composite
def played(draw, version: str):
    """Columns of a table (name of a case, nullable, in the old format), and statements."""
    pool = {name: values for name, (_, values) in ALL[version].items() if values}
    columns = draw(st.lists(st.tuples(st.sampled_from(list(pool)), st.booleans()), min_size=1, max_size=20))
    rows = draw(st.integers(1, 12))

    def value(column):
        name, nullable = column
        values = st.sampled_from(pool[name])
        return draw(st.none() | values if nullable else values)

    inserts = [[value(column) for column in columns] for _ in range(rows)]
    updates = [
        (draw(st.integers(1, rows)), at, value(columns[at]))
        for at in draw(st.lists(st.integers(0, len(columns) - 1), max_size=6))
    ]
    return columns, inserts, updates, draw(st.lists(st.integers(1, rows), max_size=3)), draw(st.booleans())


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), metadata=st.sampled_from(METADATA))
def test_tables_of_any_columns_under_any_row_image(mariadb, data, metadata):
    live = mariadb.live
    columns, inserts, updates, deletes, is_old = data.draw(played(mariadb.version))
    image = data.draw(st.sampled_from(mariadb.images))
    live.run(f"SET binlog_row_image = '{image}'")
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    live.run(f"SET GLOBAL log_bin_compress = {data.draw(st.sampled_from(['ON', 'OFF']))}")
    described = ", ".join(
        f"c{at} {mariadb.cases[name][0].removesuffix(' null')} {'NULL' if nullable else 'NOT NULL'}"
        for at, (name, nullable) in enumerate(columns)
    )
    live.run("DROP TABLE IF EXISTS t")
    with live.recorded() as files:
        live.run(f"SET GLOBAL mysql56_temporal_format = {'OFF' if is_old else 'ON'}")
        live.run(f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {described})")
        live.insert("t", ", ".join(f"c{at}" for at in range(len(columns))), [tuple(row) for row in inserts])
        for row, at, value in updates:
            live.run(f"UPDATE t SET c{at} = %s WHERE id = %s", value, row)
        for row in deletes:
            live.run("DELETE FROM t WHERE id = %s", row)
    definition = live.definition("t")
    assert replayed(changes(files[0], {TableName(live.database, "t"): definition})) == live.truth("t", definition)


def test_selected_rows_are_those_of_the_binlog(mariadb):
    """Values that no Arrow type expresses are as little in one as in the other."""
    live, cases = mariadb.live, {**mariadb.cases, **INVALID}
    live.run("SET binlog_row_image = 'FULL'")
    with live.recorded() as files:
        for name, (column_type, values) in cases.items():
            _create(live, f"select_{name}", column_type)
            live.insert(f"select_{name}", "v", [(None,), *((value,) for value in values)])
            for expression in EXPRESSIONS.get(name, ()):
                live.run(f"INSERT INTO `select_{name}` (v) VALUES ({expression})")
    tables = {name: TableName(live.database, f"select_{name}") for name in cases}
    definitions = {table: live.definition(table.table) for table in tables.values()}
    logged: dict[str, list[pa.RecordBatch]] = {}
    for step in steps(files[0], definitions):
        if isinstance(step, ChangeBatch):
            logged.setdefault(step.table.table, []).append(step.batch.select([0, 1]))
    connection = connected(live.server)
    for name, table in tables.items():
        found = selected(connection, table, definitions[table])
        assert found.equals(pa.Table.from_batches(logged[table.table])), name


@pytest.mark.parametrize("name", ["uuid", "inet4", "inet6"])
def test_a_table_is_read_row_by_row_in_the_order_of_its_key(mariadb, name):
    live = mariadb.live
    column_type, values = mariadb.cases[name][0], list(dict.fromkeys(mariadb.cases[name][1]))
    live.run("DROP TABLE IF EXISTS ordered")
    live.run(f"CREATE TABLE ordered (v {column_type} PRIMARY KEY, h VARCHAR(3000) NOT NULL UNIQUE)")
    live.insert("ordered", "v, h", [(value, str(at)) for at, value in enumerate(values)])
    table = TableName(live.database, "ordered")
    primary = Key("PRIMARY", KeyKind.PRIMARY, (KeyPart("v"),))
    definition = TableDefinition(live.definition("ordered").columns, (primary, _hashed("h")))
    key = select_key(definition)
    connection, found, border = connected(live.server), [], ()
    while border is not None:
        where = f"WHERE {key.after(border)}" if border else ""
        tail = f"{key.hint()} {where} {key.order} LIMIT 1"
        read = SelectedRows(connection, ServerSelect(table, definition, tail, border=key.columns))
        found += list(read)
        border = read.border
    assert pa.Table.from_batches(found).equals(selected(connection, table, definition, key.order))
    assert len(found) == len(values)


def test_hashes_and_years_of_two_digits_order_no_rows():
    for column_type in ("year(2)", "varchar(3000)"):
        columns = (Column("v", column_type, False, "utf8mb4" if "char" in column_type else None),)
        key = Key("v", KeyKind.UNIQUE, (KeyPart("v"),), hashed=column_type != "year(2)")
        assert select_key(TableDefinition(columns, (key,))) is None


def _hashed(name: str, *, certain: bool | None = True) -> Key:
    return Key(name, KeyKind.UNIQUE, (KeyPart(name),), hashed=certain)


@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("certain", [True, None])
def test_hashes_of_long_unique_keys_are_no_columns(mariadb, metadata, certain):
    live = mariadb.live
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    live.run("SET binlog_row_image = 'FULL'")
    live.run("DROP TABLE IF EXISTS hashed")
    with live.recorded() as files:
        live.run("CREATE TABLE hashed (id INT PRIMARY KEY, a TEXT UNIQUE, b INT, UNIQUE (b) USING HASH)")
        live.run("INSERT INTO hashed VALUES (1, 'x', 7), (2, NULL, NULL)")
        live.run("UPDATE hashed SET a = 'y' WHERE id = 2")
    columns = live.definition("hashed").columns
    definition = TableDefinition(columns, (_hashed("a", certain=certain), _hashed("b", certain=certain)))
    found = changes(files[0], {TableName(live.database, "hashed"): definition})
    assert replayed(found) == live.truth("hashed", definition)
    assert len(found) == 3


def test_a_column_that_is_no_hash_is_a_mismatch(mariadb):
    live = mariadb.live
    live.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    for kind in ("BIGINT UNSIGNED NOT NULL", "INT UNSIGNED", "DOUBLE"):
        live.run("DROP TABLE IF EXISTS other")
        with live.recorded() as files:
            live.run(f"CREATE TABLE other (id INT PRIMARY KEY, a TEXT, b {kind})")
            live.run("INSERT INTO other VALUES (1, 'x', 7)")
        definition = TableDefinition(live.definition("other").columns[:2], (_hashed("a"),))
        [aside] = [
            step
            for step in steps(files[0], {TableName(live.database, "other"): definition})
            if isinstance(step, QuarantinedRows)
        ]
        assert "column DB_ROW_HASH_1 is the hash of a unique key" in aside.error.message


def test_without_a_version_rows_are_read_as_their_table_map_has_them(mariadb):
    live = mariadb.live
    live.run("SET GLOBAL binlog_row_metadata = 'FULL'")
    live.run("SET binlog_row_image = 'FULL'")
    with live.recorded() as files:
        live.run("CREATE TABLE bare (i INT, u UUID, v VARCHAR(300) COMPRESSED, b BLOB COMPRESSED, t DATETIME(2))")
        live.run(f"INSERT INTO bare VALUES (1, '{UUID(int=2**120)}', REPEAT('ü', 200), REPEAT('b', 200), '2001-02-03')")
    [change] = changes(files[0], None)
    assert change["after"] == {
        "@1": 1,
        "@2": b64encode((2**120).to_bytes(16)).decode(),
        "@3": "ü" * 200,
        "@4": b64encode(b"b" * 200).decode(),
        "@5": "2001-02-03 00:00:00.00",
    }
    live.run("DROP TABLE bare")
    with live.recorded() as files:
        _create(live, "bare", "DATETIME(2)", old=True)
        live.run("INSERT INTO bare (v) VALUES ('2001-02-03')")
    [hole] = [step for step in steps(files[0], None) if isinstance(step, Hole)]
    assert isinstance(hole.error, UnsupportedEventError)
    assert hole.error.table == f"{live.database}.bare"


@pytest.mark.parametrize("metadata", METADATA)
def test_versions_of_rows_are_events_of_their_own(mariadb, metadata):
    """An update is followed by an insert of what was there, and a delete is an update of the end."""
    live = mariadb.live
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    live.run("SET binlog_row_image = 'FULL'")
    live.run("DROP TABLE IF EXISTS versioned")
    with live.recorded() as files:
        live.run("CREATE TABLE versioned (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING")
        live.run("INSERT INTO versioned VALUES (1, 1), (2, 2)")
        live.run("UPDATE versioned SET a = 5 WHERE id = 1")
        live.run("DELETE FROM versioned WHERE id = 2")
    hidden = (
        Column("row_start", "timestamp(6)", False, hidden=True),
        Column("row_end", "timestamp(6)", False, hidden=True),
    )
    definition = TableDefinition((*live.definition("versioned").columns, *hidden))
    found = changes(files[0], {TableName(live.database, "versioned"): definition})
    assert [change["op"] for change in found] == ["insert", "insert", "update", "insert", "update"]
    rows = [row["after"] for row in found]
    ends = live.run("SELECT id, a, CAST(row_start AS CHAR), CAST(row_end AS CHAR) FROM versioned FOR SYSTEM_TIME ALL")
    assert {tuple(row.values()) for row in rows[2:]} == set(ends)
    assert rows[0]["row_end"] == max(end for *_, end in ends)


def test_a_sequence_is_a_row_that_is_inserted_again(mariadb):
    live = mariadb.live
    live.run("DROP SEQUENCE IF EXISTS s")
    with live.recorded() as files:
        live.run("CREATE SEQUENCE s CACHE 2")
        for _ in range(5):
            live.run("SELECT NEXTVAL(s)")
        live.run("SELECT SETVAL(s, 100)")
    found = changes(files[0], {TableName(live.database, "s"): live.definition("s")})
    assert [change["after"]["next_not_cached_value"] for change in found] == [3, 5, 7, 101]
    assert found[-1]["after"] == live.truth("s", live.definition("s"))[0]


@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("kind", ["VARCHAR(10)", "CHAR(10)", "TEXT"])
def test_utf8_that_was_utf8mb4_never_gives_other_values(mariadb, kind, metadata):
    """`old_mode` is in no event, so a replay takes `utf8` for utf8mb3: the TABLE_MAP shows it, or the values are the
    same."""
    live = mariadb.live
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    live.run("SET binlog_row_image = 'FULL'")
    live.run("DROP TABLE IF EXISTS t")
    live.run("SET old_mode = ''")
    with live.recorded() as files:
        live.run(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind} CHARSET utf8)")
        live.run("INSERT INTO t VALUES (1, 'ä😀')")
    live.run("SET old_mode = DEFAULT")
    real = live.definition("t")
    assert real.columns[1].character_set == "utf8mb4"
    column = real.columns[1]
    taken = TableDefinition((real.columns[0], Column("v", column.column_type, True, "utf8mb3")))
    found = list(steps(files[0], {TableName(live.database, "t"): taken}))
    aside = [step for step in found if isinstance(step, QuarantinedRows)]
    if not aside:
        assert replayed(changes(files[0], {TableName(live.database, "t"): taken})) == live.truth("t", real)
    assert bool(aside) == (kind != "TEXT" or metadata != "NO_LOG")
