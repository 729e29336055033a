"""Defaults of BINARY and VARBINARY, of which the server shows the bytes up to the first zero: what is computed of them
is what a row gets, or nothing."""

from __future__ import annotations

import os
import random

import pytest

from strata_cdc.binlog.protocol.connection import connect
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.live.engine import read_definition
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.types import parse_column_type
from tests.landing.landing import address_of

pytestmark = pytest.mark.mysql

DRAWN = int(os.environ.get("STRATA_DEFAULTS", "60"))


def test_what_is_computed_is_what_a_row_gets(mysql_server):
    chance = random.Random(0)
    columns = []
    for number in range(DRAWN):
        length = chance.randint(1, 5)
        raw = bytes(chance.choice([0, 0, 0x61, 0xFF]) for _ in range(chance.randint(0, length)))
        kind = chance.choice(["BINARY", "VARBINARY"])
        columns.append(f"c{number} {kind}({length}) DEFAULT " + (f"0x{raw.hex()}" if raw else "''"))
    mysql_server.run_sql(
        f"DROP DATABASE IF EXISTS b; CREATE DATABASE b; CREATE TABLE b.t (id INT, {', '.join(columns)});"
        "INSERT INTO b.t (id) VALUES (1)"
    )
    names = [f"c{number}" for number in range(DRAWN)]
    line = mysql_server.run_sql(f"SELECT {', '.join(f'HEX({name})' for name in names)} FROM b.t").split("\n")[1]
    got = dict(zip(names, line.split("\t"), strict=True))
    with connect(address_of(mysql_server)) as connection:
        definition = read_definition(connection, TableName("b", "t"))
    known = 0
    for column in definition.columns[1:]:
        computed = fill_of(column)
        if isinstance(computed, NoFill):
            # Only where a zero byte may have hidden others.
            room = parse_column_type(column.column_type).length or 0
            assert len(column.default or "") // 2 - 1 < room
            continue
        known += 1
        assert computed == "0x" + got[column.name], column
    assert known > DRAWN // 4
