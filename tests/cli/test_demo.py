"""`strata demo`: its binlog is what a server makes of the statements beside it, and what it shows is true."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli import demo
from strata_cdc.cli.demo import BINLOG, DemoRow, DemoStatement, read_demo
from strata_cdc.cli.main import run
from tests.as_new import make_as_new

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

SCRIPT = (BINLOG.parent / "shop.sql").read_text()


@pytest.mark.mysql
def test_the_file_has_what_a_server_makes_of_the_statements(server: MysqlServer) -> None:
    make_as_new(server)
    server.run_sql(SCRIPT)
    shipped, again = read_demo(), read_demo(server.binlogs()[-1])
    assert shipped == again
    assert [item.statement for item in shipped if isinstance(item, DemoStatement)] == [
        statement for statement in SCRIPT.split(";\n") if statement.startswith(("CREATE TABLE", "ALTER"))
    ]
    # What SELECT gives are the last images of the rows that were not deleted.
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, amount, note, state FROM shop.items ORDER BY id")
        assert list(cursor.fetchall()) == [(1, 120, None, "new"), (3, 300, None, "new"), (4, 400, "first", "gone")]


def test_each_row_is_beside_what_todays_schema_makes_of_it() -> None:
    rows = [item for item in read_demo() if isinstance(item, DemoRow)]
    assert [row.late for row in rows] == [
        None,
        None,
        {"id": "x", "amount": 3, "note": 300, "state": "sold"},
        {"id": None, "amount": 1, "note": 120, "state": "new"},
        {"id": 2, "amount": 250, "note": None, "state": "sold"},
        {"id": 4, "amount": 400, "note": "first", "state": "gone"},
    ]
    assert [row.late == row.image for row in rows] == [False, False, False, False, True, True]


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "6 rows, each with the schema that was true for it" in shown
    assert "gets 4 of them wrong" in shown
    assert run(["--json", "demo"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 10
    assert demo.read_demo()[1].image == lines[1]["image"]
