"""The tables of a group: one view, one mirror at a common cut, one status; the judge is SELECT on each server."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.compute as pc
import pytest

from strata_cdc.cli.main import run
from strata_cdc.config.settings import Group, load_settings
from strata_cdc.errors import DifferentRowsError, MirrorBehindError, SchemaGapError, SchemaMismatchError
from strata_cdc.groups.cuts.common_cut import common_cut
from strata_cdc.groups.cuts.read_mirrors import read_table
from strata_cdc.landing.clock_readings import reading_clock
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.position.token import Order
from strata_cdc.position.token_text import from_text
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.merges import MergeLedger
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
MEMBERS = ("shard_a", "shard_b")
SETTINGS = """
lake = "lake"
[sources.shard_a]
connection = "a"
store = "sqlite:///shard_a/store.db"
lineage = "second"
[sources.shard_b]
connection = "b"
store = "sqlite:///shard_b/store.db"
[groups.orders]
sources = ["shard_a", "shard_b"]
global_keys = ["d.whole"]
"""


class Worlds:
    """Two shards in one lake."""

    def __init__(self, servers: dict[str, MysqlServer], folder: Path) -> None:
        self.folder, self.servers = folder, {name: servers[name] for name in MEMBERS}
        self.worlds = {}
        for name, server in self.servers.items():
            (folder / name).mkdir()
            self.worlds[name] = MirrorWorld(server, folder / name, database="d", name=name)
            source = self.worlds[name].source
            self.worlds[name].source = type(source)(name, source.address, str(folder / "lake"), "", source.settings)
        (folder / "strata.toml").write_text(SETTINGS)

    @property
    def environment(self) -> dict[str, str]:
        urls = {f"AIRFLOW_CONN_{name[-1].upper()}": server.url for name, server in self.servers.items()}
        return {"STRATA_SETTINGS": str(self.folder / "strata.toml"), **urls}

    @property
    def group(self) -> Group:
        return load_settings(self.environment).group("orders")

    def publish(self, *names: str, end: int | None = None) -> int:
        """All that has been written, in an interval with the same end on each; returns that end."""
        end = end or time.time_ns() // 1000
        for name in names or MEMBERS:
            source = self.worlds[name].source
            with reading_clock(source.address, source.lake, name):
                self.worlds[name].publish(RunRequest(0, end))
            report = self.worlds[name].update()
            assert [(one.table, one.behind, one.error) for one in report.behind] == []
        return end

    def cut(self, at: int | None = None) -> Any:
        return common_cut(self.group, now=time.time_ns() // 1000, at=at)

    def selected(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        found = []
        for name, server in self.servers.items():
            with server.connect("d") as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT '{name}', {columns} FROM {table}")
                found += cursor.fetchall()
        return sorted(found)


@pytest.fixture(scope="module")
def worlds(servers: dict[str, MysqlServer], tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    made = Worlds(servers, tmp_path_factory.mktemp("tables"))
    for at, server in enumerate(made.servers.values()):
        server.run_sql(
            f"""CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9));
            INSERT INTO t VALUES (1, 'x{at}'), (2, 'y{at}');
            CREATE TABLE whole (id INT PRIMARY KEY); INSERT INTO whole VALUES ({at});
            CREATE TABLE u (id INT PRIMARY KEY, n {("INT", "BIGINT")[at]}); INSERT INTO u VALUES (1, 1);"""
        )
    made.servers["shard_b"].run_sql("ALTER TABLE d.t ADD b INT; INSERT INTO d.t VALUES (3, 'z', 7)")
    made.publish()
    return made


def rows(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in table.to_pylist())


def test_the_mirrors_of_all_sources_are_one_table(worlds: Worlds):
    found = read_table(worlds.group, "d.t", worlds.cut())
    assert rows(found, "_source", "id", "a") == worlds.selected("t", "id, a")
    assert rows(found.filter(pc.equal(found["_source"], "shard_a")), "b") == [(None,), (None,)]


def test_views_over_all_sources(worlds: Worlds, monkeypatch, capsys):
    for name, value in worlds.environment.items():
        monkeypatch.setenv(name, value)
    assert run(["views", "--group", "orders", "--through", "files", "--table", "d.t"]) == 0
    with duckdb.connect() as connection:
        connection.execute(capsys.readouterr().out)
        assert sorted(connection.execute("SELECT _source, id, a FROM d.t").fetchall()) == worlds.selected("t", "id, a")
        assert connection.execute("SELECT b FROM d.t WHERE id = 3").fetchall() == [(7,)]
        changes = connection.execute("SELECT _source, count(*), count(b) FROM d.t__changes GROUP BY 1").fetchall()
        assert sorted(changes) == [("shard_a", 2, 0), ("shard_b", 3, 1)]
    assert run(["--json", "views", "--group", "orders", "--table", "d.u"]) == 0
    for line in map(json.loads, capsys.readouterr().out.splitlines()):
        assert line["statements"] == []
        assert "n is int32 in shard_a and int64 in shard_b" in line["notes"][0]


def test_a_column_of_two_types_is_refused(worlds: Worlds):
    with pytest.raises(SchemaMismatchError, match="n is int32 in shard_a and int64 in shard_b"):
        read_table(worlds.group, "d.u", worlds.cut())


def test_an_interval_is_the_groups_when_all_have_published_it(worlds: Worlds):
    before = worlds.cut()
    expected = worlds.selected("t", "id, a")
    for server in worlds.servers.values():
        server.run_sql("UPDATE t SET a = 'later' WHERE id = 1; INSERT INTO t (id, a) VALUES (4, 'new')", "d")
    worlds.publish("shard_a")
    # The other one has the change, too, and has not published it.
    held = worlds.cut()
    assert held.time <= before.time
    assert held.token.compare(before.token) is Order.EQUAL
    assert rows(read_table(worlds.group, "d.t", held), "_source", "id", "a") == expected
    worlds.publish("shard_b")
    after = worlds.cut()
    assert after.token.compare(before.token) is Order.AFTER
    assert rows(read_table(worlds.group, "d.t", after), "_source", "id", "a") == worlds.selected("t", "id, a")
    assert rows(read_table(worlds.group, "d.t", before), "_source", "id", "a") == expected


def test_a_table_that_a_source_lacks_and_a_column_that_is_called_as_ours(worlds: Worlds, monkeypatch, capsys):
    for name, value in worlds.environment.items():
        monkeypatch.setenv(name, value)
    for server in worlds.servers.values():
        server.run_sql(
            "CREATE TABLE named (id INT PRIMARY KEY, _Source INT); INSERT INTO named VALUES (1, 5);"
            "CREATE TABLE left_one (id INT PRIMARY KEY); INSERT INTO left_one VALUES (1)",
            "d",
        )
    worlds.servers["shard_a"].run_sql("CREATE TABLE here (id INT PRIMARY KEY); INSERT INTO here VALUES (1)", "d")
    worlds.servers["shard_b"].run_sql("DROP TABLE left_one", "d")
    worlds.publish()
    cut = worlds.cut()
    for table in ("here", "left_one"):
        with pytest.raises(SchemaGapError, match="there is no such table") as refused:
            read_table(worlds.group, f"d.{table}", cut)
        assert refused.value.source == "shard_b"
    wanted = worlds.selected("named", "id, _source")
    assert rows(read_table(worlds.group, "d.named", cut), "_source", "id", "__Source") == wanted
    assert run(["views", "--group", "orders", "--through", "files", "--table", "d.named"]) == 0
    with duckdb.connect() as connection:
        connection.execute(capsys.readouterr().out)
        assert connection.execute("SELECT * FROM d.named ORDER BY ALL").fetchall() == wanted
        assert connection.execute("SELECT _source, id, __source FROM d.named ORDER BY ALL").fetchall() == wanted


def test_a_mirror_without_a_state_at_the_cut_says_so(worlds: Worlds):
    for server in worlds.servers.values():
        server.run_sql("INSERT INTO t (id, a) VALUES (50, 'between')", "d")
    end = time.time_ns() // 1000
    for name in MEMBERS:
        # Published, and the mirrors are brought up to date only behind the next interval.
        worlds.worlds[name].publish(RunRequest(0, end))
    middle = worlds.cut(end)
    for server in worlds.servers.values():
        server.run_sql("INSERT INTO t (id, a) VALUES (51, 'behind')", "d")
    worlds.publish()
    with pytest.raises(MirrorBehindError, match="and the table has changed in between") as caught:
        read_table(worlds.group, "d.t", middle)
    assert caught.value.source == "shard_a"
    assert rows(read_table(worlds.group, "d.t", worlds.cut()), "_source", "id", "a") == worlds.selected("t", "id, a")
    # Nothing became of this one in between.
    assert read_table(worlds.group, "d.whole", middle).num_rows == 2


def test_a_global_key_on_two_sources_is_an_error(worlds: Worlds):
    assert rows(read_table(worlds.group, "d.whole", worlds.cut()), "id") == [(0,), (1,)]
    worlds.servers["shard_b"].run_sql("INSERT INTO d.whole VALUES (0)")
    worlds.publish()
    with pytest.raises(
        DifferentRowsError, match=r"1 keys \(id\) are on two sources at the cut, .* shard_a and shard_b"
    ):
        read_table(worlds.group, "d.whole", worlds.cut())
    worlds.servers["shard_b"].run_sql("DELETE FROM d.whole WHERE id = 0")
    worlds.publish()


def test_a_cut_is_common_whatever_was_run(worlds: Worlds):
    """Sources that are run by hand have intervals with other ends. What one has before the cut, all have."""
    end = worlds.publish()
    common, expected = worlds.cut(), worlds.selected("t", "id, a")
    for number in (60, 61):
        for server in worlds.servers.values():
            server.run_sql(f"INSERT INTO t (id, a) VALUES ({number}, 'by hand')", "d")
        worlds.publish(MEMBERS[number % 2])
    # Each is held by what the other one has besides, and has been read further than the last common end.
    found = worlds.cut()
    assert (found.time, found.behind) == (end, ())
    assert found.token.compare(common.token) is Order.EQUAL
    assert rows(read_table(worlds.group, "d.t", found), "_source", "id", "a") == expected
    # One that has written nothing since is whole, wherever its last interval ends.
    worlds.publish("shard_a")
    found = worlds.cut()
    assert (found.time > end, found.behind) == (True, ())
    assert rows(read_table(worlds.group, "d.t", found), "_source", "id", "a") == worlds.selected("t", "id, a")


def test_a_cut_says_what_it_has_less_of(worlds: Worlds):
    """Before the first end of all."""
    engine = worlds.worlds["shard_a"].engine
    found = worlds.cut(min(one.end for one in IntervalLedger(engine).all("shard_a")) - 1)
    assert found.behind == MEMBERS
    assert [one.seq for one in found.sources] == [0, 0]
    assert found.to_json()["is_common"] is False


def test_a_pattern_that_matches_no_table_is_in_the_line_of_the_group(worlds: Worlds, monkeypatch, capsys):
    for name, value in worlds.environment.items():
        monkeypatch.setenv(name, value)
    path = worlds.folder / "strata.toml"
    path.write_text(SETTINGS.replace('connection = "b"', 'connection = "b"\ntables = ["d.t", "d.hole"]'))
    try:
        assert run(["status", "--group", "orders"]) == 0
        assert '; shard_b: "d.hole" matches no table: do you mean d.whole?' in capsys.readouterr().out
        assert run(["--json", "status", "--group", "orders"]) == 0
        members = json.loads(capsys.readouterr().out)["members"]
        assert [len(one["unmatched"]) for one in members] == [0, 1]
    finally:
        path.write_text(SETTINGS)


def test_commands(worlds: Worlds, monkeypatch, capsys):
    for name, value in worlds.environment.items():
        monkeypatch.setenv(name, value)
    end = worlds.publish()
    assert run(["--json", "status", "--group", "orders"]) == 0
    status = json.loads(capsys.readouterr().out)
    # Both are idle, and prove it by their positions.
    assert status["watermark"] > end
    assert status["skew_seconds"] < 60
    assert status["held_by"] in MEMBERS
    assert status["held_since"] == status["watermark"]
    assert [one["clock_correction_seconds"] for one in status["members"]] == [0, 0]
    assert run(["status", "--group", "orders"]) == 0
    assert re.search(r"group orders: watermark .* skew .* held by shard_[ab] since 20", capsys.readouterr().out)
    assert run(["--json", "cut", "--group", "orders"]) == 0
    cut = json.loads(capsys.readouterr().out)
    assert [place.source for place in from_text(cut["token"]).positions] == list(MEMBERS)
    assert run(["cut", "--group", "orders"]) == 0
    assert cut["token"] in capsys.readouterr().out
    assert run(["stream", "--group", "orders", "--from", cut["token"]]) == 0
    capsys.readouterr()
    for one, names in ((["--group", "orders"], list(MEMBERS)), (["--source", "shard_a"], ["shard_a"])):
        # Who asks where it is now gets that, and not an empty answer.
        assert run(["stream", *one, "--from", "now", "--until", "now"]) == 0
        line = json.loads(capsys.readouterr().out)
        assert line["heartbeat"] is True
        assert [place.source for place in from_text(line["token"]).positions] == names
    assert run(["stream", "--group", "orders", "--source", "shard_a"]) == 2
    assert "are two streams" in capsys.readouterr().err


def test_what_servers_that_do_not_answer_said_is_not_broken_into_a_column(worlds: Worlds, monkeypatch, capsys):
    for name, value in worlds.environment.items():
        monkeypatch.setenv(name, value)
    for name in "AB":
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", "mysql://root@127.0.0.1:1/")
    assert run(["status", "--group", "orders"]) == 0
    first, *table, last = capsys.readouterr().out.splitlines()
    [holder] = re.findall(r"held by (shard_[ab]) \(.*127\.0\.0\.1:1.*\)", first)
    [other] = set(MEMBERS) - {holder}
    assert last.startswith(f"{other}: ")
    assert "127.0.0.1:1" in last
    assert all(line.rstrip().endswith("not known") for line in table[1:])


def test_the_doctor_names_what_differs_and_the_ddl_that_made_it(worlds: Worlds, monkeypatch, capsys):
    for name, value in worlds.environment.items():
        monkeypatch.setenv(name, value)
    run(["--json", "doctor"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    mine = [one for one in found if one.get("group") == "orders"]
    reported = [one["what"] for one in mine if one["name"] == "tables"]
    assert any(
        one.startswith(
            "d.t: b is not there in shard_a, which never had it; int in shard_b, by ALTER TABLE d.t ADD b INT"
        )
        for one in reported
    ), reported
    assert any("d.u: n is int in shard_a, by CREATE TABLE u" in one and "bigint in shard_b" in one for one in reported)
    assert {one["severity"] for one in mine if one["name"] == "clocks"} == {"ok"}


def test_intervals_that_became_one(worlds: Worlds):
    """A mirror whose table was quiet in the second part has a state for the end of the whole; another has not."""
    worlds.publish()
    ledgers = {name: IntervalLedger(worlds.worlds[name].engine) for name in MEMBERS}
    begins = {name: ledger.all(name)[-1].end for name, ledger in ledgers.items()}
    for number, server in enumerate(worlds.servers.values()):
        server.run_sql(f"DELETE FROM whole; INSERT INTO whole VALUES ({60 + number})", "d")
    worlds.publish()
    for server in worlds.servers.values():
        server.run_sql("INSERT INTO t (id) VALUES (160)", "d")
    end = time.time_ns() // 1000
    for name, ledger in ledgers.items():
        worlds.worlds[name].publish(RunRequest(begins[name], end))
        parts = [interval for interval in ledger.all(name) if interval.start >= begins[name]]
        assert MergeLedger(worlds.worlds[name].engine).merge(parts, lambda *_: False)
    cut = worlds.cut(end)
    for server in worlds.servers.values():
        server.run_sql("INSERT INTO t (id) VALUES (161)", "d")
    worlds.publish()
    assert rows(read_table(worlds.group, "d.whole", cut), "id") == [(60,), (61,)]
    with pytest.raises(MirrorBehindError, match="and the table has changed in between"):
        read_table(worlds.group, "d.t", cut)
