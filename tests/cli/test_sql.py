"""What the command line has of SQL: `schema show --dialect`, `decode --where`."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

LIFE = """
CREATE DATABASE d; USE d;
CREATE TABLE t (id INT PRIMARY KEY, status ENUM('new', 'paid'), price DECIMAL(10,2) COMMENT 'in euro', born DATE);
INSERT INTO t VALUES (1, 'new', 5, '2024-01-01'), (2, 'paid', 0.5, NULL), (3, 'PAID', 7, '2024-01-01');
UPDATE t SET status = 'paid' WHERE id = 1;
DELETE FROM t WHERE id = 2;
SET SESSION binlog_row_image = MINIMAL;
UPDATE t SET price = 1 WHERE id = 3;
SET SESSION binlog_row_image = FULL, sql_mode = '';
INSERT INTO t VALUES (9, 'new', 1, '0000-00-00');
"""


@pytest.fixture(scope="module")
def binlog(mysql_server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    mysql_server.run_sql(
        f"DROP DATABASE IF EXISTS d; RESET BINARY LOGS AND GTIDS; {LIFE} FLUSH BINARY LOGS; DROP DATABASE d"
    )
    return str(shutil.copy(mysql_server.binlogs()[0], tmp_path_factory.mktemp("binlog")))


def decoded(binlog: str, where: str, capsys: Any) -> tuple[int, list[tuple[str, int]], str]:
    """Exit code, the operations with the key of their rows, and what was said."""
    code = run(["decode", binlog, "--out", "-", "--where", where])
    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    return code, [(row["op"], (row["after"] or row["before"]).get("id", 0)) for row in rows], said.err


def test_rows_are_chosen_by_both_images(binlog: str, capsys: Any) -> None:
    # The one who becomes paid, the one who was; the key that the last image lacks is the one before.
    assert decoded(binlog, "id = 1", capsys)[1] == [("insert", 1), ("update", 1)]
    assert decoded(binlog, "t.id IN (2, 3)", capsys)[1] == [("insert", 2), ("insert", 3), ("delete", 2), ("update", 0)]
    assert decoded(binlog, "id > 100", capsys)[:2] == (0, [])


def test_what_the_log_does_not_tell_is_no_answer(binlog: str, capsys: Any) -> None:
    code, rows, said = decoded(binlog, "status = 'Paid'", capsys)
    assert (code, rows) == (2, [("insert", 2), ("insert", 3), ("update", 1), ("delete", 2)])
    assert "`status = 'Paid'` is neither true nor false" in said
    code, rows, said = decoded(binlog, "price > 100 AND id = 9 OR id < 4 AND born IS NOT NULL", capsys)
    assert (code, rows) == (2, [("insert", 1), ("insert", 3), ("update", 1)])
    assert ":6)" in said.splitlines()[0]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            "statusx = 'new'",
            "strata: there is no column statusx; near it are status (line 1, column 1)\n  statusx = 'new'\n  ^",
        ),
        ("id =", "strata: the condition is not MySQL's SQL (line 1, column 4)\n  id =\n     ^"),
    ],
)
def test_a_mistake_is_shown_at_its_place(binlog: str, capsys: Any, where: str, said: str) -> None:
    code, rows, error = decoded(binlog, where, capsys)
    assert (code, rows) == (2, [])
    assert error.startswith(said)
    assert "`strata docs reading`" in error


def test_a_version_for_other_engines(binlog: str, tmp_path: Path, capsys: Any) -> None:
    store = ["--source", "s", "--store", f"sqlite:///{tmp_path}/store.db"]
    assert run(["track", binlog, *store]) == 0
    capsys.readouterr()
    assert run(["schema", "show", *store, "--table", "d.t", "--dialect", "mysql"]) == 0
    said = capsys.readouterr()
    assert said.out == (
        "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `status` enum('new','paid') DEFAULT NULL,\n"
        "  `price` decimal(10,2) DEFAULT NULL COMMENT 'in euro',\n  `born` date DEFAULT NULL,\n  PRIMARY KEY (`id`)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;\n\n"
    )
    assert "ENGINE=InnoDB: no statement names the engine" in said.err
    assert run(["schema", "show", *store, "--dialect", "spark"]) == 0
    said = capsys.readouterr()
    assert said.out == (
        "-- not in this statement: status: the labels of ENUM are not checked\n-- not in this statement: key PRIMARY\n"
        "-- not in this statement: the collations of status\n"
        "CREATE TABLE `d`.`t` (\n  `id` INT NOT NULL,\n  `status` STRING,\n"
        "  `price` DECIMAL(10, 2) COMMENT 'in euro',\n  `born` DATE\n);\n\n"
    )
    assert run(["schema", "show", *store, "--dialect", "duckdb", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["database"], line["table"], line["dialect"]) == ("d", "t", "duckdb")
    assert len(line["statements"]) == 2
    assert line["notes"] == ["the collations of status"]
