"""`strata sql` at moments that are hard to have: before the mirror, after gaps, among renames; and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import strata_cdc
from strata_cdc.cli.main import run
from strata_cdc.clock import from_micros
from strata_cdc.errors import LakeUnavailableError, PastUnknownError, QueryError, Usage
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.land_state import read_state
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.table import Mirror
from strata_cdc.past.query import answer
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.ledgers import IntervalLedger
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.past.past_world import PastWorld, executed, rows

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), price DECIMAL(8, 2));"


def files_of(world: PastWorld) -> dict[str, int]:
    """Everything in the lake."""
    return {str(path): path.stat().st_mtime_ns for path in Path(world.lake).rglob("*")}


def test_a_table_has_the_rows_the_names_and_the_types_of_then(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)", "shop")
    first = executed(world)
    world.publish()
    world.update()
    world.server.run_sql(
        "ALTER TABLE t RENAME COLUMN price TO cost, MODIFY id BIGINT; UPDATE t SET cost = 9 WHERE id = 1;"
        "RENAME TABLE t TO u; CREATE TABLE t (x INT); INSERT INTO t VALUES (7)",
        "shop",
    )
    world.publish()
    before = files_of(world)
    found = answer(world.readable, "SELECT * FROM shop.t ORDER BY id", first).rows
    assert found.to_pylist() == [
        {"id": 1, "name": "a", "price": Decimal("1.50")},
        {"id": 2, "name": "b", "price": Decimal("2.00")},
    ]
    assert [str(one) for one in found.schema.types] == ["int32", "string", "decimal128(8, 2)"]
    # The mirrors have not followed yet; what they have not applied comes from the changes.
    assert rows(world, "SELECT * FROM shop.t", executed(world)) == [(7,)]
    assert rows(world, "SELECT id, cost FROM shop.u ORDER BY id DESC LIMIT 1", executed(world)) == [(2, Decimal(2))]
    then = f"shop.t a FOR SYSTEM_TIME AS OF GTID '{first}'"
    both = f"SELECT a.id, a.price, b.cost FROM {then} JOIN shop.u b ON a.id = b.id"
    assert rows(world, f"{both} AND a.id = 1", executed(world)) == [(1, Decimal("1.50"), Decimal(9))]
    assert files_of(world) == before
    with pytest.raises(Usage, match="did not exist"):
        rows(world, "SELECT * FROM shop.u", first)


def test_a_lake_on_disk_and_at_a_url(server: MysqlServer, tmp_path: Path, lake: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = PastWorld(server, tmp_path, name="shop", lake_url=lake)
    server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2); DELETE FROM t WHERE id = 1", "shop")
    world.publish()
    world.update()
    server.run_sql("UPDATE t SET price = 3; ALTER TABLE t RENAME COLUMN price TO cost; DELETE FROM t", "shop")
    world.publish()
    moments = executed(world).rpartition("-")
    then = f"{moments[0]}-{int(moments[2]) - 1}"
    assert rows(world, "SELECT * FROM shop.t", then) == [(2, "b", Decimal("3.00"))]
    assert rows(world, "SELECT * FROM shop.t") == [(2, "b", Decimal("2.00"))]


def test_a_moment_is_the_last_transaction_up_to_a_time(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5)", "shop")
    for number in range(2, 6):
        world.server.run_sql(f"INSERT INTO t VALUES ({number}, 'b', 2)", "shop")
    world.publish()
    world.update()
    stream = strata_commits(world)
    last = len(stream)
    for seq in range(3, last - 1):
        moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=stream[seq - 1])
        text = moment.replace(tzinfo=None).isoformat(" ", "microseconds")
        query = f"SELECT COUNT(*) FROM shop.t FOR SYSTEM_TIME AS OF TIMESTAMP '{text}'"
        assert rows(world, query) == [(seq - 2,)]
        earlier = (moment - timedelta(microseconds=1)).isoformat(" ", "microseconds")
        assert rows(world, "SELECT COUNT(*) FROM shop.t", earlier) == [(seq - 3,)]
    with pytest.raises(PastUnknownError, match="may have been committed"):
        rows(world, "SELECT COUNT(*) FROM shop.t", "2200-01-01 00:00:00")
    with pytest.raises(Usage, match="the moment is blank"):
        rows(world, "SELECT COUNT(*) FROM shop.t", " ")
    # Nothing was committed since, and the landing of an idle server shows that.
    world.publish()
    landing = read_state(world.lake, world.name)
    assert landing is not None
    assert landing.complete is not None
    assert landing.complete.time > stream[-1]
    idle = str(from_micros(landing.complete.time - 1).replace(tzinfo=None))
    assert rows(world, "SELECT COUNT(*) FROM shop.t", idle) == [(5,)]
    with pytest.raises(PastUnknownError, match="may have been committed"):
        rows(world, "SELECT COUNT(*) FROM shop.t", str(from_micros(landing.complete.time).replace(tzinfo=None)))
    with pytest.raises(Usage, match="never was"):
        rows(world, "SELECT COUNT(*) FROM shop.t", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3")
    with pytest.raises(Usage, match="neither a time, nor a GTID set"):
        rows(world, "SELECT COUNT(*) FROM shop.t", "yesterday")


def strata_commits(world: PastWorld) -> list[int]:
    """The commit times of the landed transactions, microseconds."""
    return [record.committed_at for _, record in LandedStream.open(world.lake, world.name).records()]


def test_a_table_older_than_the_stream_is_refused_until_it_is_dumped(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5); FLUSH BINARY LOGS", "shop")
    world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'")
    world.snapshot()
    world.server.run_sql("UPDATE t SET price = 2; CREATE TABLE u (id INT); INSERT INTO u VALUES (3)", "shop")
    world.publish()
    world.update()
    with pytest.raises(PastUnknownError, match="not known") as refused:
        rows(world, "SELECT * FROM shop.t", executed(world))
    assert "strata dump" in str(refused.value)
    with pytest.raises(PastUnknownError, match="has no mirror"):
        rows(world, "SELECT * FROM shop.t")
    assert rows(world, "SELECT * FROM shop.u") == [(3,)]


def test_an_alter_whose_values_no_log_has_ends_what_is_known(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5)", "shop")
    before = executed(world)
    world.server.run_sql("ALTER TABLE t ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP", "shop")
    world.publish()
    world.update()
    assert rows(world, "SELECT id FROM shop.t", before) == [(1,)]
    with pytest.raises(PastUnknownError, match="not known"):
        rows(world, "SELECT id FROM shop.t", executed(world))
    # A table that nothing was lost of is not affected.
    world.server.run_sql("CREATE TABLE u (id INT)", "shop")
    world.publish()
    assert rows(world, "SELECT * FROM shop.u", executed(world)) == []


def test_what_has_landed_and_is_not_published_is_refused(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5)", "shop")
    world.publish()
    world.update()
    world.server.run_sql("INSERT INTO t VALUES (2, 'b', 2)", "shop")
    land_binlog(world.source.address, lake=world.lake, source=world.name)
    with pytest.raises(PastUnknownError, match="published"):
        rows(world, "SELECT * FROM shop.t", executed(world))
    assert rows(world, "SELECT id FROM shop.t") == [(1,)]


def test_partial_images_and_truncate_between(world: PastWorld) -> None:
    world.server.run_sql(
        f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2); SET binlog_row_image = MINIMAL;"
        "UPDATE t SET name = 'c' WHERE id = 2; UPDATE t SET id = 5 WHERE id = 1",
        "shop",
    )
    minimal = executed(world)
    world.server.run_sql("TRUNCATE TABLE t; INSERT INTO t VALUES (9, 'z', 0)", "shop")
    world.publish()
    world.update()
    assert rows(world, "SELECT * FROM shop.t ORDER BY id", minimal) == [
        (2, "c", Decimal("2.00")),
        (5, "a", Decimal("1.50")),
    ]
    assert rows(world, "SELECT id FROM shop.t") == [(9,)]


def test_after_a_vacuum_older_moments_are_answered_or_refused(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)", "shop")
    moments = []
    for number in range(3, 7):
        world.server.run_sql(f"INSERT INTO t VALUES ({number}, 'c', 3); DELETE FROM t WHERE id = {number - 2}", "shop")
        moments.append(executed(world))
        world.publish()
        world.update()
    mirror = Mirror.open(world.lake, world.name, TableName("shop", "t"))
    assert mirror is not None
    compact(mirror)
    vacuum(mirror.refreshed(), now_micros=time.time_ns() // 1000 + 10 * 3_600_000_000, retain_hours=0)
    for number, at in enumerate(moments):
        assert rows(world, "SELECT id FROM shop.t ORDER BY 1", at) == [(number + 2,), (number + 3,)]


def test_the_end_of_an_interval_is_a_moment(world: PastWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY)", "shop")
    for number in range(3):
        world.server.run_sql(f"INSERT INTO t VALUES ({number})", "shop")
        world.publish()
    world.update()
    intervals = IntervalLedger(world.engine).all(world.name)
    ends = [rows(world, "SELECT COUNT(*) FROM shop.t", f"Interval {from_micros(one.start)}") for one in intervals]
    assert ends == [rows(world, "SELECT COUNT(*) FROM shop.t", one.gtid_executed) for one in intervals]
    assert ends[-1] == [(3,)]
    with pytest.raises(Usage, match="no closed interval has the time 2999-01-01"):
        rows(world, "SELECT 1 FROM shop.t", "interval 2999-01-01")
    with pytest.raises(Usage, match="is no time"):
        rows(world, "SELECT 1 FROM shop.t", "interval yesterday")


def test_values_that_no_column_holds_fail_where_they_are_read(world: PastWorld) -> None:
    world.server.run_sql(
        "SET sql_mode = ''; CREATE TABLE d (id INT PRIMARY KEY, day DATE); INSERT INTO d VALUES (1, '0000-00-00'), "
        "(2, '2024-02-29')",
        "shop",
    )
    world.publish()
    world.update()
    assert rows(world, "SELECT id FROM shop.d ORDER BY id") == [(1,), (2,)]
    with pytest.raises(QueryError, match="0000-00-00"):
        rows(world, "SELECT * FROM shop.d")
    with pytest.raises(QueryError, match="0000-00-00"):
        rows(world, "SELECT id FROM shop.d WHERE day IS NULL")


def test_texts_whose_weights_are_not_known_fail_where_they_are_compared(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE w (id INT PRIMARY KEY, name VARCHAR(20)) COLLATE utf8mb4_0900_ai_ci;"
        "INSERT INTO w VALUES (1, 'Stra\u00dfe'), (2, 'Weg'), (3, 'weg')",
        "shop",
    )
    world.publish()
    world.update()
    for query in ("SELECT id FROM shop.w ORDER BY name", "SELECT id FROM shop.w WHERE name = 'weg'"):
        with pytest.raises(QueryError, match="name: utf8mb4_0900_ai_ci is not known here for a character of this text"):
            rows(world, query)
    assert rows(world, "SELECT id FROM shop.w ORDER BY name COLLATE utf8mb4_0900_bin") == [(1,), (2,), (3,)]
    assert rows(world, "SELECT id FROM shop.w WHERE name = 'WEG' AND id > 1 ORDER BY id DESC") == [(3,), (2,)]
    with pytest.raises(QueryError, match="several spellings"):
        rows(world, "SELECT name FROM shop.w WHERE id > 1 GROUP BY name")
    assert rows(world, "SELECT COUNT(DISTINCT name) FROM shop.w WHERE id > 1") == [(1,)]


def test_a_damaged_page_of_a_mirror_is_named(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)", "shop")
    world.publish()
    world.update()
    mirror = Mirror.open(world.lake, world.name, TableName("shop", "t"))
    assert mirror is not None
    [file] = Path(mirror.url).rglob("*.parquet")
    content = bytearray(file.read_bytes())
    content[4:8] = b"\xff" * 4
    file.write_bytes(content)
    with pytest.raises(LakeUnavailableError, match="cannot be read") as caught:
        rows(world, "SELECT * FROM shop.t")
    assert str(caught.value.file).endswith(file.name)


def test_another_program_changed_the_mirror(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)", "shop")
    first = executed(world)
    world.publish()
    world.update()
    mirror = Mirror.open(world.lake, world.name, TableName("shop", "t"))
    assert mirror is not None
    DeltaTable(mirror.url).delete("id = 1")
    world.server.run_sql("UPDATE t SET price = 3 WHERE id = 2", "shop")
    world.publish()
    with pytest.raises(PastUnknownError, match="another program"):
        rows(world, "SELECT * FROM shop.t", executed(world))
    world.update()
    with pytest.raises(PastUnknownError, match="another program"):
        rows(world, "SELECT * FROM shop.t", first)


def test_a_mirror_that_was_found_wrong_later_does_not_answer_for_earlier_moments(world: PastWorld) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)", "shop")
    world.publish()
    world.update()
    first = executed(world)
    world.server.run_sql("UPDATE t SET price = 3 WHERE id = 2", "shop")
    world.publish()
    world.update()
    assert rows(world, "SELECT COUNT(*) FROM shop.t", first) == [(2,)]
    mirror = Mirror.open(world.lake, world.name, TableName("shop", "t"))
    assert mirror is not None
    mirror.diverged_for("a change matches no row")
    with pytest.raises(PastUnknownError, match="other rows than the table: a change matches no row"):
        rows(world, "SELECT COUNT(*) FROM shop.t", first)


def test_the_command_writes_each_format(
    world: PastWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world.server.run_sql(
        "CREATE TABLE o (id INT PRIMARY KEY, at DATETIME(2), n DECIMAL(6, 2), b VARBINARY(4), t TIME);"
        "INSERT INTO o VALUES (1, '2024-02-29 01:02:03.45', 1.5, 'ab', '-01:00:00'), (2, NULL, NULL, NULL, NULL)",
        "shop",
    )
    world.publish()
    world.update()
    settings(world, monkeypatch)
    assert run(["sql", "SELECT * FROM shop.o ORDER BY id", "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"id": 1, "at": "2024-02-29 01:02:03.45", "n": "1.50", "b": "YWI=", "t": "-01:00:00"}
    assert run(["sql", "SELECT id, n, b FROM shop.o ORDER BY id", "--format", "csv"]) == 0
    assert capsys.readouterr().out == '"id","n","b"\n1,"1.50","YWI="\n2,,\n'
    assert run(["sql", "SELECT id FROM shop.o", "--format", "parquet", "--out", str(tmp_path / "o.parquet")]) == 0
    assert sorted(pq.read_table(tmp_path / "o.parquet")["id"].to_pylist()) == [1, 2]
    assert run(["sql", "SELECT id, n FROM shop.o ORDER BY id"]) == 0
    assert "NULL" in capsys.readouterr().out
    assert run(["sql", "DELETE FROM shop.o"]) == 2
    for form in ("jsonl", "parquet"):
        twice = ["sql", "SELECT id, n AS id FROM shop.o", "--format", form, "--out", str(tmp_path / "twice")]
        assert run(twice) == 2
        assert "two columns are called id" in capsys.readouterr().err
    many = ", ".join(map(str, range(1, 20_001)))
    assert run(["sql", f"SELECT id FROM shop.o WHERE id IN ({many}) ORDER BY id", "--format", "csv"]) == 0
    assert capsys.readouterr().out == '"id"\n1\n2\n'
    for statement, message in {
        "SELECT * FROM shop.nothing": "there is no such table, and there was none",
        "SELECT * FROM read_csv('/etc/passwd')": "no table",
        "SELECT (SELECT id FROM shop.o)": "gives several rows",
        "SELECT id + 9223372036854775807 FROM shop.o": "out of range",
    }.items():
        assert run(["sql", statement]) == 2
        assert message in capsys.readouterr().err
    assert strata_cdc.sql("SELECT COUNT(*) AS n FROM shop.o").to_pylist() == [{"n": 2}]


def settings(world: PastWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source in a file of settings."""
    (world.folder / "strata.toml").write_text(
        f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n[sources.shop]\nconnection = "x"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(world.folder / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", world.server.url)


def test_a_killed_query_leaves_the_lake_as_it_was(world: PastWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5)", "shop")
    world.publish()
    world.update()
    world.server.run_sql("UPDATE t SET price = 2; ALTER TABLE t ADD COLUMN x INT DEFAULT 5", "shop")
    world.publish()
    settings(world, monkeypatch)
    before, at = files_of(world), executed(world)
    program = "import sys; from strata_cdc.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "sql", "--at", at, "SELECT * FROM shop.t"]
    for wait in (0.4, 0.7, 1.0, 1.3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        time.sleep(wait)
        process.kill()
        process.wait()
        assert files_of(world) == before
    assert rows(world, "SELECT * FROM shop.t", at) == [(1, "a", Decimal("2.00"), 5)]


def test_mariadb(tmp_path: Path) -> None:
    with start_mariadb(tmp_path / "server", next(iter(PREFIXES))) as server:
        server.run_sql("CREATE DATABASE shop")
        (tmp_path / "world").mkdir()
        world = PastWorld(server, tmp_path / "world", name="shop")
        server.run_sql(f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5), (2, 'B', 2)", "shop")
        first = server.run_sql(server.executed_sql).split("\n")[1]
        server.run_sql("ALTER TABLE t RENAME COLUMN price TO cost; UPDATE t SET cost = 7 WHERE id = 1", "shop")
        world.publish()
        world.update()
        query = "SELECT name, price FROM shop.t WHERE name IN ('A', 'b') ORDER BY name DESC"
        assert rows(world, query, first) == [("B", Decimal("2.00")), ("a", Decimal("1.50"))]
        assert rows(world, "SELECT SUM(cost) FROM shop.t") == [(Decimal("9.00"),)]
