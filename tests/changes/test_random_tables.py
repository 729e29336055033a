"""Tables of any columns, with any rows, under any row image: decoded = SELECT = naive decoder = mysqlbinlog."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.mysql import program
from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes, replayed
from tests.changes.test_types import CASES
from tests.naive.decoder import decode

pytestmark = pytest.mark.mysql

POOL = {name: values for name, (_, values) in CASES.items() if values and "invalid" not in name}
TYPES = {name: CASES[name][0] for name in POOL}
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé", max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
IMAGES = ("FULL", "MINIMAL", "NOBLOB")


@st.composite
def tables(draw):
    """Columns (name of a case, nullable), rows, and changes of them."""
    columns = draw(st.lists(st.tuples(st.sampled_from([*POOL, "json"]), st.booleans()), min_size=1, max_size=20))
    rows = draw(st.integers(1, 12))

    def value(column):
        name, nullable = column
        values = DOCUMENTS.map(json.dumps) if name == "json" else st.sampled_from(POOL[name])
        return draw(st.none() | values if nullable else values)

    inserts = [[value(column) for column in columns] for _ in range(rows)]
    updates = [
        (draw(st.integers(1, rows)), at, value(columns[at]))
        for at in draw(st.lists(st.integers(0, len(columns) - 1), max_size=6))
    ]
    deletes = draw(st.lists(st.integers(1, rows), max_size=3))
    return columns, inserts, updates, deletes


def play(live, columns, inserts, updates, deletes):
    described = ", ".join(
        f"c{at} {TYPES.get(name, 'json')} {'NULL' if nullable else 'NOT NULL'}"
        for at, (name, nullable) in enumerate(columns)
    )
    live.run("DROP TABLE IF EXISTS t")
    live.run(f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {described})")
    live.insert("t", ", ".join(f"c{at}" for at in range(len(columns))), [tuple(row) for row in inserts])
    for row, at, value in updates:
        live.run(f"UPDATE t SET c{at} = %s WHERE id = %s", value, row)
    for row in deletes:
        live.run("DELETE FROM t WHERE id = %s", row)


@pytest.fixture(scope="module")
def live(mysql_server):
    live = Live(mysql_server)
    yield live
    live.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")


@settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(given_table=tables(), image=st.sampled_from(IMAGES), metadata=st.sampled_from(["MINIMAL", "FULL"]))
def test_all_readers_agree(live, given_table, image, metadata):
    columns, inserts, updates, deletes = given_table
    live.run(f"SET binlog_row_image = '{image}'")
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    with live.recorded() as files:
        play(live, columns, inserts, updates, deletes)
    definition = live.definition("t")
    [path] = files
    found = changes(path, {TableName(live.database, "t"): definition})
    if image == "FULL":
        assert replayed(found) == live.truth("t", definition)
    assert json.loads(json.dumps(decode(path.read_bytes()))) == changes(path, None)
    check_by_mysqlbinlog(path, found)


def check_by_mysqlbinlog(path, found):
    """Counts of operations, and the key of each row, which it prints as we do."""
    done = subprocess.run(
        [program("mysqlbinlog"), "--base64-output=DECODE-ROWS", "-vv", path], capture_output=True, check=True
    )
    text = done.stdout.decode(errors="replace")
    names = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}
    printed = re.findall(
        r"^### (INSERT INTO|UPDATE|DELETE FROM) .*\n### (?:SET|WHERE)\n###   @1=(\d+)", text, re.MULTILINE
    )
    expected = Counter((change["op"], str((change["before"] or change["after"])["id"])) for change in found)
    assert Counter((names[verb], key) for verb, key in printed) == expected
