"""`strata quarantine` on a real server: rows that fail their checks, rows that nobody can decode, values that nobody
may see. What is put aside is made as it comes about in life: by ALTER TABLE without the binlog."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from strata_cdc.cli.main import run
from strata_cdc.files.storage import content_digest
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.runs.run_folder import read_plan, run_folder
from strata_cdc.tables.read import read_changes
from strata_cdc.tables.statistics import pack_statistics

if TYPE_CHECKING:
    from strata_cdc.runs.run_folder import DecodedRun
    from strata_cdc.tables.write import StagedFile
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

MARKER = "kaninchen"
TOO_LONG = MARKER * 5
SETTINGS = """
lake = "lake"
store = "sqlite:///store.db"
[sources.q]
connection = "q"
tables = ["{database}.*"]
sensitive = ["{database}.customers.email"]
"""


class Source:
    """A database of its own, and the command on its source."""

    def __init__(self, server: MysqlServer, database: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.server, self.database, self.folder, self._capfd = server, database, folder, capfd
        self.said: list[str] = []
        """All that was printed so far."""
        (folder / "strata.toml").write_text(SETTINGS.format(database=database))

    def sql(self, text: str) -> None:
        self.server.run_sql(text, self.database)

    def strata(self, *words: str, code: int = 0) -> str:
        self._capfd.readouterr()
        assert run([*words, "--source", "q"]) == code, (words, self._capfd.readouterr())
        shown = self._capfd.readouterr()
        self.said += [shown.out, shown.err]
        return shown.out

    def lines(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.strata(*words, "--json", code=code).splitlines()]

    def land_and_plan(self) -> str:
        self.strata("land")
        self.strata("track")
        [report] = self.lines("plan")
        return str(report["run"])

    def decode(self, run_name: str, corrupted: str = "") -> DecodedRun:
        """Decodes a run; of one table what is staged becomes wrong, as by a fault of the decoder."""
        folder = run_folder(str(self.folder / "lake"), "q", run_name)
        files = [file for task in planned_tasks(folder.url) for file in decode_slice_to_files(task)]
        return store_decoded(folder.url, [_corrupt(file) if file.table == corrupted else file for file in files])

    def changes(self, table: str) -> list[dict[str, Any]]:
        rows = read_changes(str(self.folder / "lake"), "q", f"{self.database}.{table}")
        return list(rows.sort_by([("_seq", "ascending"), ("_row", "ascending")]).to_pylist())


def _corrupt(file: StagedFile) -> StagedFile:
    """Every text of the table is longer than its column allows."""
    path = Path(file.url)
    table = pq.read_table(path)
    at = table.schema.get_field_index("mail")
    path.chmod(0o644)
    wrong = pa.array([f"{TOO_LONG}{row}" for row in range(table.num_rows)])
    pq.write_table(table.set_column(at, "mail", wrong), path)
    content = path.read_bytes()
    return replace(
        file,
        digest=content_digest(content),
        size_bytes=len(content),
        stats=pack_statistics({"numRecords": table.num_rows}),
    )


@pytest.fixture
def source(
    mysql_server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Source:
    database = f"quarantine_{tmp_path.name[-6:].strip('_').replace('-', '_')}"
    mysql_server.run_sql(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}")
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_Q", mysql_server.url)
    return Source(mysql_server, database, tmp_path, capfd)


def test_a_sensitive_value_is_shown_nowhere_but_in_the_rows(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    source.sql(
        f"CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(40) NOT NULL, UNIQUE (email));"
        f"INSERT INTO customers VALUES (1, '{MARKER} 1');"
    )
    source.strata("snapshot")
    source.sql(
        "ALTER TABLE customers RENAME COLUMN email TO mail; RENAME TABLE customers TO clients;"
        f"INSERT INTO clients VALUES (2, '{MARKER} 2'), (3, '{MARKER} 3');"
        f"SET SESSION binlog_format = STATEMENT; UPDATE clients SET mail = '{MARKER} 4' WHERE id = 3;"
    )
    run_name = source.land_and_plan()
    plan = read_plan(run_folder(str(source.folder / "lake"), "q", run_name))
    name = f"{source.database}.clients"
    assert plan.sensitive[name] == ("mail",), "by the name that it had, of its table and its own"
    assert [one.statement for one in plan.statements] == ["UPDATE (sensitive)"]
    source.decode(run_name, corrupted="clients")
    source.strata("check", run_name, code=1)
    source.strata("publish", run_name, code=1)
    source.strata("status")
    source.strata("intervals")
    [listed] = source.lines("quarantine", "list")
    assert (listed["table"], listed["rows"], listed["kept_rows"]) == ("clients", 2, 2)
    assert listed["reasons"] == ["expect_column_value_lengths_to_be_between"]
    [shown] = source.lines("quarantine", "show", "--rows", "5")
    assert [(row["id"], row["mail"]) for row in shown["rows_shown"]] == [(2, "(sensitive)"), (3, "(sensitive)")]
    failure = shown["failures"][0]
    assert [json.loads(example)["id"] for example in failure["examples"]] == [2, 3], "the key, and no value"
    text = source.strata("quarantine", "show", "--rows", "5")
    assert "strata quarantine release --source q --table" in text
    source.strata("quarantine", "release", "--because", " ", "--all", code=2)
    source.strata("quarantine", "release", "--because", "it is so", code=2)
    [released] = source.lines("quarantine", "release", "--because", "it is so", "--by", "ada", "--table", name)
    assert [(one["table"], one["rows"], one["state"]) for one in released["released"]] == [(name, 2, "published")]
    assert [row["mail"] for row in source.changes("clients")] == [f"{TOO_LONG}0", f"{TOO_LONG}1"], "as they are"
    assert source.lines("quarantine", "list") == []
    written = [path for path in (source.folder / "lake" / "runs").rglob("*") if path.is_file()]
    pages = [path for path in written if path.suffix in {".html", ".json"} and path.name != "decoded.json"]
    assert any(path.suffix == ".html" for path in pages), "the Data Docs"
    with closing(sqlite3.connect(source.folder / "store.db")) as store:
        stored = "\n".join(line for line in store.iterdump() if "INSERT" in line)
    assert ("ada" in stored, "it is so" in stored) == (True, True)
    everything = [*source.said, caplog.text, stored, *(path.read_text(errors="replace") for path in pages)]
    assert [text for text in everything if MARKER in text] == []


def test_rows_that_nobody_decodes_are_released_only_if_their_columns_are_known(source: Source) -> None:
    """Their number has no label; their table has a column that the history does not have."""
    source.sql(
        "CREATE TABLE labels (id INT PRIMARY KEY, state ENUM('a', 'b')); CREATE TABLE shapes (id INT PRIMARY KEY);"
    )
    source.strata("snapshot")
    source.sql(
        "SET SESSION sql_log_bin = 0; ALTER TABLE labels MODIFY state ENUM('a', 'b', 'c');"
        "ALTER TABLE shapes ADD COLUMN more INT; SET SESSION sql_log_bin = 1;"
        "INSERT INTO labels VALUES (1, 'a'); INSERT INTO labels VALUES (2, 'c'); INSERT INTO shapes VALUES (1, 2);"
        "SET SESSION sql_log_bin = 0; ALTER TABLE labels ADD COLUMN more INT; SET SESSION sql_log_bin = 1;"
        "INSERT INTO labels VALUES (3, 'a', 4);"
    )
    run_name = source.land_and_plan()
    aside = source.decode(run_name).put_aside()
    assert sorted((table, rows) for (table, _), rows in aside.items()) == [
        (f"{source.database}.labels", 1),
        (f"{source.database}.labels", 1),
        (f"{source.database}.shapes", 1),
    ]
    source.strata("check", run_name)
    source.strata("publish", run_name, code=1)
    found = {one["table"]: one for one in source.lines("quarantine", "list")}
    assert {table: (one["state"], one["rows"], one["kept_rows"], one["reasons"]) for table, one in found.items()} == {
        "labels": ("held", 2, 2, ["SchemaMismatchError", "UndecodableTextError"]),
        "shapes": ("held", 1, 1, ["SchemaMismatchError"]),
    }
    [status] = source.lines("status")
    reasons = {table["table"]: table["reasons"] for table in status["tables"] if table["reasons"]}
    assert reasons[f"{source.database}.labels"] == [
        {"reason": error, "intervals": 1, "rows": 2} for error in ("SchemaMismatchError", "UndecodableTextError")
    ]
    [shown] = source.lines("quarantine", "show", "--table", f"{source.database}.shapes", "--rows", "1")
    assert [(row["@1"], row["@2"]) for row in shown["rows_shown"]] == [(1, 2)]
    # What has names can be released; the rest is told of, and stays.
    [released] = source.lines("quarantine", "release", "--because", "NULL will do", "--all", code=1)
    assert [(one["rows"], one["state"], one["left"]) for one in released["released"]] == [(1, "held", 1)]
    assert "nobody knows the columns" in source.said[-1]
    assert [(row["id"], row["state"], row["_invalid"]) for row in source.changes("labels")] == [
        (1, "a", None),
        (2, None, [("state", "3")]),
    ]
    before = (source.changes("labels"), source.lines("quarantine", "list"))
    assert [(one["table"], one["rows"]) for one in before[1]] == [("labels", 1), ("shapes", 1)]
    source.strata("publish", run_name, code=1)
    assert (source.changes("labels"), source.lines("quarantine", "list")) == before, "the same run undoes no decision"
    source.strata("quarantine", "discard", "--because", "a test", "--interval", found["shapes"]["start"], "--all")
    assert source.lines("quarantine", "list") == []
    assert "discarded: 1 row of" in source.strata("status")
    [of_shapes] = [one for one in source.lines("intervals") if one["table"] == "shapes"]
    assert (of_shapes["state"], of_shapes["reason"]["error"]) == ("discarded", "SchemaMismatchError")
    source.strata("publish", run_name)
    assert (source.changes("labels"), source.lines("quarantine", "list")) == (before[0], [])
    assert source.lines("plan", "--failed")[0]["tables"] == 0, "nothing is pending"
    _backfill_in_vain(source, run_name, "labels")


def _backfill_in_vain(source: Source, run_name: str, table: str) -> None:
    """Another run that has no more rows of a table than were published leaves what was decided."""
    [table_interval] = [one for one in source.lines("intervals") if one["table"] == table]
    [again] = source.lines(
        "plan",
        "--start",
        table_interval["start"],
        "--end",
        table_interval["end"],
        "--table",
        f"{source.database}.{table}",
    )
    assert (again["run"] == run_name, again["tables"]) == (False, 1)
    decided = (source.changes(table), source.lines("quarantine", "list"), _states(source))
    source.decode(again["run"])
    source.strata("check", again["run"])
    source.strata("publish", again["run"])
    assert (source.changes(table), source.lines("quarantine", "list"), _states(source)) == decided


def _states(source: Source) -> list[dict[str, Any]]:
    return [{name: one.get(name) for name in ("table", "state", "rows", "reason")} for one in source.lines("intervals")]
