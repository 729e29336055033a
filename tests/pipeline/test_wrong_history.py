"""A history that has a DDL at the wrong place, on a real MySQL and MariaDB: rows contradict their version, stay in
quarantine, and everything that shows them names the version that they fit, with both positions."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cli.main import run
from strata_cdc.config.settings import load_settings
from strata_cdc.tables.read import read_changes
from tests.serve.conftest import app_of, client_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

SETTINGS = """
lake = "lake"
store = "sqlite:///store.db"
[sources.q]
connection = "q"
engine = "local"
tables = ["{database}.*"]
"""
OLD_NEW, NEW_OLD = "old data, new schema", "new data, old schema"
SIDES = {OLD_NEW: "before", NEW_OLD: "after"}


class Source:
    """A database of its own on a server, and the command on its source."""

    def __init__(
        self, server: MysqlServer, folder: Path, patched: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.server, self.folder, self._capfd = server, folder, capfd
        self.database = f"wrong_{re.sub('[^a-z0-9]', '_', folder.name)[-20:]}"
        server.run_sql(f"DROP DATABASE IF EXISTS {self.database}; CREATE DATABASE {self.database}")
        (folder / "strata.toml").write_text(SETTINGS.format(database=self.database))
        patched.setenv("STRATA_SETTINGS", str(folder / "strata.toml"))
        patched.setenv("AIRFLOW_CONN_Q", server.url)

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.server.run_sql(statement, self.database)

    def strata(self, *words: str, code: int = 0) -> tuple[str, str]:
        self._capfd.readouterr()
        assert run([*words, "--source", "q"]) == code, (words, self._capfd.readouterr())
        shown = self._capfd.readouterr()
        return shown.out, shown.err

    def move(self, text: str, transactions: int) -> dict[str, Any]:
        """Tracks the stream, then moves a DDL in the history; returns where it was in the stream."""
        self.strata("land")
        self.strata("track")
        with closing(sqlite3.connect(self.folder / "store.db")) as store:
            ((number, gtid, file, offset),) = store.execute(
                "SELECT id, gtid, binlog_file, binlog_pos FROM schema_version "
                "WHERE ddl LIKE ? AND default_database = ?",
                (f"{text}%", self.database),
            ).fetchall()
            store.execute("UPDATE schema_version SET seq = seq + ? WHERE id = ?", (transactions, number))
            store.commit()
        return {"gtid": gtid, "file": file, "offset": offset}

    def verdict(self) -> dict[str, dict[str, Any]]:
        """The newest failures of the stored verdicts, by check."""
        with closing(sqlite3.connect(self.folder / "store.db")) as store:
            details = [json.loads(text) for (text,) in store.execute("SELECT details FROM verdict")]
        return {rule["check"]: rule for one in details for rule in one["failures"]}

    def page(self) -> str:
        """The page of the interval that was judged, without its tags."""
        with closing(sqlite3.connect(self.folder / "store.db")) as store:
            ((start,),) = store.execute("SELECT start_at FROM verdict WHERE table_name <> ''").fetchall()
        with client_of(app_of(lambda: load_settings(os.environ))) as client:
            answer = client.get("/verdict", params={"source": "q", "start": start})
            assert answer.status_code == 200
        return unescape(re.sub("<[^>]*>", "", answer.text))

    def changes(self) -> list[int]:
        """The ids of the published rows."""
        return sorted(read_changes(str(self.folder / "lake"), "q", f"{self.database}.t")["id"].to_pylist())


@pytest.fixture(params=["mysql_server", "mariadb_server"])
def source(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Source:
    return Source(request.getfixturevalue(request.param), tmp_path, monkeypatch, capfd)


def place(where: dict[str, Any]) -> str:
    return f"GTID {where['gtid']} ({where['file']} @ {where['offset']})"


ADD = "ALTER TABLE t ADD COLUMN n INT"
DROP = "ALTER TABLE t DROP COLUMN n"
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
TWO, FOUR = "INSERT INTO t VALUES (2, 'y', 2), (3, 'z', 3)", "INSERT INTO t VALUES (4, 'v', 4)"


@pytest.mark.parametrize(
    ("transactions", "quadrant", "aside"), [(2, NEW_OLD, [2, 3]), (-1, OLD_NEW, [1])], ids=["too late", "too early"]
)
def test_rows_that_fit_the_version_next_to_theirs(
    source: Source, transactions: int, quadrant: str, aside: list[int]
) -> None:
    source.sql(CREATE, "INSERT INTO t VALUES (1, 'x')", ADD, TWO, FOUR)
    ddl = source.move(ADD, transactions)
    source.strata("run", code=1)
    # Not decoded by the other version, though it fits.
    assert source.changes() == sorted({1, 2, 3, 4} - set(aside))
    name, rows = f"{source.database}.t", len(aside)
    rules = source.verdict()
    error = json.loads(rules["rows_can_be_decoded"]["examples"][0])
    crossing = {"ddl": "add column", "quadrant": quadrant, "made_at": ddl}
    assert (error["error"], error["crossing"]) == ("SchemaMismatchError", crossing)
    fits = f"their TABLE_MAP fits the version {SIDES[quadrant]} add column at {place(ddl)}"
    assert f"the rows are {quadrant}: {fits}" in error["message"]
    first = {key: error[key] for key in ("gtid", "file", "offset")}
    crossed = f"{quadrant}, around add column: a row at {place(first)}, the DDL at {place(ddl)}"
    rule = rules["rows_have_the_valid_schema"]
    assert re.fullmatch(rf"{rows} rows? of {re.escape(crossed)}", rule["message"])
    assert (rule["rows"], rule["severity"]) == (rows, "warning")
    # The status, the metrics and the pages have the same.
    assert f"{name}: {rule['message']}" in source.strata("status")[0]
    [status] = map(json.loads, source.strata("status", "--json")[0].splitlines())
    shown = {"table": name, "rows": rows, "row": first, **crossing}
    assert (status["crossed"], status["crossed_rows"]) == ([shown], rows)
    assert rule["message"] in source.page()
    # A stream ends before them, and says the same.
    stream = ("stream", "--table", name, "--from", "beginning", "--until", "landed", "--json")
    out, err = source.strata(*stream, code=1)
    ends = json.loads(err.splitlines()[-1])
    assert (ends["crossing"], ends["gtid"]) == (crossing, first["gtid"])
    ids = [json.loads(line)["after"]["id"] for line in out.splitlines() if '"op"' in line]
    assert ids == [one for one in (1, 2, 3, 4) if one < aside[0]]
    # So does the command that decodes files, by the same store.
    files = [str(path) for path in source.server.binlogs()]
    rows_file = str(source.folder / "rows.jsonl")
    out, err = source.strata(
        "decode", *files, "--store", f"sqlite:///{source.folder}/store.db", "--table", name, "--out", rows_file, code=1
    )
    assert f"the rows are {quadrant}: {fits}" in out + err


def test_rows_that_fit_both_neighbours_are_of_neither(source: Source) -> None:
    """Without a column that was there in between, rows may be from before or after; they are not counted as either."""
    source.sql(CREATE, ADD, FOUR, DROP, "INSERT INTO t VALUES (5, 'w')", "ALTER TABLE t COMMENT = 'end'")
    source.move(DROP, 2)
    source.strata("run", code=1)
    assert source.changes() == [4]
    rules = source.verdict()
    error = json.loads(rules["rows_can_be_decoded"]["examples"][0])
    assert "the rows do not show which of them it was" in error["message"]
    assert "crossing" not in error
    assert "rows_have_the_valid_schema" not in rules
    [status] = map(json.loads, source.strata("status", "--json")[0].splitlines())
    assert (status["crossed"], status["crossed_rows"]) == ([], 0)


def test_rows_that_fit_no_neighbour(source: Source) -> None:
    without_log = "SET sql_log_bin = 0; ALTER TABLE t MODIFY a {}; SET sql_log_bin = 1; {}"
    source.sql(CREATE, without_log.format("BIGINT", "INSERT INTO t VALUES (1, 2)"))
    source.sql(without_log.format("VARCHAR(10)", ADD), FOUR)
    source.strata("run", code=1)
    assert source.changes() == [4]
    error = json.loads(source.verdict()["rows_can_be_decoded"]["examples"][0])
    assert "the versions next to it do not fit either" in error["message"]
    assert "crossing" not in error
