"""Every column type: what is decoded is what SELECT shows."""

from __future__ import annotations

import random

import pytest

from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes, replayed

pytestmark = pytest.mark.mysql

RANDOM = random.Random(20261121)


def _integers(bits: int, *, signed: bool) -> list[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return [low, high, 0, 1, low + 1, *(RANDOM.randint(low, high) for _ in range(40))]


def _decimals(precision: int, scale: int) -> list[str]:
    found = ["0", "9" * (precision - scale) + "." + "9" * scale, "-" + "9" * (precision - scale) + "." + "9" * scale]
    for _ in range(40):
        whole = str(RANDOM.randint(0, 10 ** RANDOM.randint(0, precision - scale) - 1))
        fraction = "".join(RANDOM.choices("0123456789", k=scale))
        found.append(RANDOM.choice(["", "-"]) + whole + ("." + fraction if scale else ""))
    return found


def _moments(fsp: int, first_year: int = 1, last_year: int = 9999) -> list[str]:
    found = [f"{first_year + 1:04}-01-01 00:00:00", f"{last_year:04}-12-31 23:59:59", "2024-02-29 12:34:56.987654"]
    for _ in range(40):
        year, month, day = RANDOM.randint(first_year + 1, last_year), RANDOM.randint(1, 12), RANDOM.randint(1, 28)
        clock = f"{RANDOM.randint(0, 23):02}:{RANDOM.randint(0, 59):02}:{RANDOM.randint(0, 59):02}"
        found.append(f"{year:04}-{month:02}-{day:02} {clock}.{RANDOM.randint(0, 999999):06}"[: 20 + fsp if fsp else 19])
    return found


def _times(fsp: int) -> list[str]:
    found = ["838:59:59", "-838:59:59", "00:00:00", "-00:00:00.1", "-00:00:01", "-01:00:00.999999"]
    for _ in range(60):
        clock = f"{RANDOM.randint(0, 837)}:{RANDOM.randint(0, 59):02}:{RANDOM.randint(0, 59):02}"
        found.append(f"{RANDOM.choice(['', '-'])}{clock}.{RANDOM.randint(0, 999999):06}"[: 20 + fsp])
    return found


def _texts(longest: int) -> list[str]:
    alphabet = "abc äöü€ß中文😀\n\t'\"\\\0"
    return ["", "a", *("".join(RANDOM.choices(alphabet, k=RANDOM.randint(0, longest))) for _ in range(30))]


def _blobs(longest: int) -> list[bytes]:
    return [b"", b"\0", *(RANDOM.randbytes(RANDOM.randint(0, longest)) for _ in range(30))]


DECIMALS = [(1, 0), (1, 1), (5, 2), (9, 0), (9, 9), (10, 0), (18, 9), (18, 0), (19, 4), (20, 10), (27, 0), (30, 29)]
DECIMALS += [(38, 0), (38, 10), (38, 30), (39, 5), (50, 30), (65, 0), (65, 30), (60, 1)]
ENUMS = {255: [f"label {n}" for n in range(255)], 300: [f"l{n}" for n in range(300)]}

CASES: dict[str, tuple[str, list[object]]] = {
    **{f"int{bits}": (name, _integers(bits, signed=True)) for bits, name in
       ((8, "tinyint"), (16, "smallint"), (24, "mediumint"), (32, "int"), (64, "bigint"))},
    **{f"uint{bits}": (f"{name} unsigned", _integers(bits, signed=False)) for bits, name in
       ((8, "tinyint"), (16, "smallint"), (24, "mediumint"), (32, "int"), (64, "bigint"))},
    **{f"decimal_{p}_{s}": (f"decimal({p},{s})", _decimals(p, s)) for p, s in DECIMALS},
    "decimal_unsigned": ("decimal(12,3) unsigned", ["0", "999999999.999", "0.001"]),
    "float": ("float", [0, 1.5, -1.5, 0.1, 3.4e38, 1.2e-38, *(RANDOM.uniform(-1e6, 1e6) for _ in range(30))]),
    "double": ("double", [0, 1.5, -0.1, 1.7e308, 2.3e-308, *(RANDOM.uniform(-1e9, 1e9) for _ in range(30))]),
    **{f"bit{bits}": (f"bit({bits})", [0, 1, (1 << bits) - 1, RANDOM.getrandbits(bits)]) for bits in
       (1, 2, 7, 8, 9, 16, 17, 31, 33, 63, 64)},
    "year": ("year", [0, 1901, 2024, 2155]),
    "date": ("date", ["0001-01-01", "9999-12-31", "2024-02-29", "1969-12-31", "2000-03-01", "1900-02-28"]),
    "date_invalid": ("date", ["0000-00-00", "2024-00-00", "2024-01-00", "2024-02-31", "2023-02-29", "0000-01-01"]),
    **{f"datetime{fsp}": (f"datetime({fsp})", _moments(fsp)) for fsp in range(7)},
    "datetime_invalid": ("datetime(3)", ["0000-00-00 00:00:00", "2024-02-31 10:00:00.5", "2024-00-00 01:02:03.004"]),
    "datetime0_invalid": ("datetime", ["0000-00-00 00:00:00", "2024-11-31 10:00:00"]),
    **{f"timestamp{fsp}": (f"timestamp({fsp}) null", _moments(fsp, 1970, 2037)) for fsp in range(7)},
    "timestamp_invalid": ("timestamp(2) null", ["0000-00-00 00:00:00"]),
    **{f"time{fsp}": (f"time({fsp})", _times(fsp)) for fsp in range(7)},
    "char": ("char(30)", _texts(30)),
    "char_wide": ("char(255)", _texts(255)),
    "varchar_short": ("varchar(20)", _texts(20)),
    "varchar_long": ("varchar(300)", _texts(300)),
    "tinytext": ("tinytext", _texts(20)),
    "text": ("text", _texts(700)),
    "mediumtext": ("mediumtext", [*_texts(20), "x" * 70000]),
    "longtext": ("longtext", [*_texts(20), "ä" * 40000]),
    "binary": ("binary(20)", _blobs(20)),
    "varbinary": ("varbinary(300)", _blobs(300)),
    "tinyblob": ("tinyblob", _blobs(100)),
    "blob": ("blob", _blobs(1000)),
    "mediumblob": ("mediumblob", [RANDOM.randbytes(70000)]),
    "longblob": ("longblob", [RANDOM.randbytes(70000)]),
    "enum": ("enum('a','b,c','ä''x','')", [1, 2, 3, 4, 0]),
    "enum255": ("enum(" + ",".join(f"'{label}'" for label in ENUMS[255]) + ")", [1, 255, 100]),
    "enum300": ("enum(" + ",".join(f"'{label}'" for label in ENUMS[300]) + ")", [1, 256, 300]),
    **{f"set{n}": ("set(" + ",".join(f"'s{k}'" for k in range(n)) + ")", [0, 1, 1 << n - 1, (1 << n) - 1]) for n in
       (1, 8, 9, 16, 17, 24, 25, 32, 33, 63, 64)},
    "vector": ("vector(3)", []),
    "geometry": ("geometry", []),
}  # fmt: skip
ESPECIALLY = {
    "vector": ["TO_VECTOR('[1,2.5,-3e10]')", "TO_VECTOR('[0.1,0.2,0.3]')"],
    "geometry": [
        "ST_GeomFromText('POINT(1 2)')",
        "ST_GeomFromText('LINESTRING(0 0,1 1,2 5)', 4326, 'axis-order=long-lat')",
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),POLYGON((0 0,0 3,3 3,0 0)))')",
    ],
}


@pytest.fixture(scope="module")
def live(mysql_server):
    return Live(mysql_server)


@pytest.fixture(scope="module")
def decoded(live):
    """One table a case, all in one binlog, decoded in one go."""
    with live.recorded() as files:
        for name, (column_type, values) in CASES.items():
            live.run(f"CREATE TABLE `{name}` (id INT PRIMARY KEY AUTO_INCREMENT, v {column_type})")
            live.insert(name, "v", [(None,), *((value,) for value in values)])
            for expression in ESPECIALLY.get(name, ()):
                live.run(f"INSERT INTO `{name}` (v) VALUES ({expression})")
    definitions = {TableName(live.database, name): live.definition(name) for name in CASES}
    return definitions, changes(files[0], definitions)


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_that_select_shows(live, decoded, name):
    definitions, found = decoded
    definition = definitions[TableName(live.database, name)]
    rows = replayed([change for change in found if change["table"] == name])
    assert rows == live.truth(name, definition)
    assert len(rows) > 1
