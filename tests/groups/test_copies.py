"""Hops over real servers between which a copier of our own copies, in transactions of its own that say how far it is,
as Vitess' filtered replication does. The witness is what was written: each row exactly once, or marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cli.main import run
from strata_cdc.errors import SourceSettingsError
from strata_cdc.groups.switchovers import Switchover, switchover_between
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.time_text import parse_time
from tests.groups.test_switchovers import execute, executed
from tests.groups.world import Shards, changes
from tests.streams.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.position.sets import GtidSet
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
COLUMN = "_vt.blp_checkpoint.pos"
TABLES = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, a TEXT);"


class Copied:
    """One shard whose even rows a copier has brought to a new one, and the odd ones to another."""

    def __init__(self, servers: dict[str, MysqlServer], folder: Path) -> None:
        self.servers = dict(zip(("whole", "even", "odd"), (servers[name] for name in sorted(servers)), strict=True))
        self.parts = (self.servers["even"], self.servers["odd"])
        self.written: list[str] = []
        self.waiting: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
        for server in self.servers.values():
            server.run_sql(TABLES)
        for server in self.parts:
            server.run_sql(
                "CREATE DATABASE _vt; CREATE TABLE _vt.blp_checkpoint (id INT PRIMARY KEY, pos VARBINARY(4000));"
                "INSERT INTO _vt.blp_checkpoint VALUES (0, '')"
            )
        self.write(10)
        self.copy()
        self.write(4)
        self.left = executed(self.servers["whole"])
        self.worlds = {"whole": self._world("whole", folder)}
        # The copier is behind: what it copies next is behind the positions of the new ones.
        self.entered = {name: executed(self.servers[name]) for name in ("even", "odd")}
        self.write(2, to_parts=True)
        self.copy()
        self.write(4, to_parts=True)
        self.late = self.note_late()
        self.write(3, to_parts=True)
        self.worlds |= {name: self._world(name, folder) for name in ("even", "odd")}

    def _world(self, name: str, folder: Path) -> World:
        (folder / name).mkdir()
        world = World(self.servers[name], folder / name, name)
        world.land()
        world.track()
        return world

    def write(self, count: int, *, to_parts: bool = False) -> None:
        for _ in range(count):
            number = len(self.written)
            server = self.parts[number % 2] if to_parts else self.servers["whole"]
            execute(server, f"INSERT INTO d.t VALUES ({number}, 'row {number}')")
            self.written.append(f"row {number}")
            if not to_parts:
                self.waiting[number % 2].append((number, text_of(executed(server))))

    def copy(self) -> None:
        for part, server in enumerate(self.parts):
            for number, position in self.waiting[part]:
                self._copy(server, [number], position)
            self.waiting[part] = []

    def note_late(self) -> set[str]:
        """Two that nobody should have written to the old one any more: the copier puts one of them, and one that was
        given long ago and is copied once more, into one transaction."""
        self.write(2)
        # What it leaves out it passes, too.
        self.servers["even"].run_sql(f"UPDATE _vt.blp_checkpoint SET pos = '{text_of(self.left)}'")
        [(first, position)] = self.waiting[0]
        self._copy(self.servers["even"], [first], position)
        [(second, position)] = self.waiting[1]
        before = text_of(self.left).replace(f"-{self.left.count()}", f"-{self.left.count() - 1}")
        self.servers["odd"].run_sql(f"UPDATE _vt.blp_checkpoint SET pos = '{before}'")
        self._copy(self.servers["odd"], [second], position)
        self.waiting = {0: [], 1: []}
        return {f"row {second}"}

    def _copy(self, server: MysqlServer, numbers: list[int], position: str) -> None:
        rows = ", ".join(f"({number}, 'row {number}')" for number in numbers)
        execute(
            server,
            "BEGIN",
            f"INSERT INTO d.t VALUES {rows}",
            f"UPDATE _vt.blp_checkpoint SET pos = 'MySQL56/{position}'",
            "COMMIT",
        )

    def group(self, column: str | None = COLUMN) -> Shards:
        return Shards(
            [self.worlds["even"], self.worlds["odd"]], former=[self.worlds["whole"]], source_gtid_column=column
        )

    @property
    def exact(self) -> Switchover:
        return Switchover("split", {"whole": self.left}, dict(self.entered))

    def by_time(self, copied_until: int | None = None) -> Switchover:
        return Switchover("split", {"whole": self.left}, {"even": None, "odd": None}, copied_until)


@pytest.fixture(scope="module")
def copied(servers: dict[str, MysqlServer], tmp_path_factory: pytest.TempPathFactory) -> Copied:
    return Copied(servers, tmp_path_factory.mktemp("copies"))


def text_of(position: GtidSet) -> str:
    return str(position).replace("\n", "")


def rows(lines: list[dict[str, Any]], table: str = "t") -> list[str]:
    return [line["after"]["a"] for line in lines if line.get("table") == table and "op" in line]


def marked(lines: list[dict[str, Any]]) -> set[str]:
    return set(rows([line for line in lines if line.get("possible_duplicate")]))


def test_copies_are_told_by_the_position_that_the_copier_wrote(copied: Copied):
    lines = copied.group().lines(switchovers=[copied.exact])
    assert rows(lines) == copied.written
    # One transaction copies what was given, and what was not: given, and marked.
    assert marked(lines) == copied.late
    assert not [line for line in lines if line.get("table") == "blp_checkpoint" and "op" in line]
    assert {line["source"]: line.get("epoch", 0) for line in lines if "op" in line} == {"whole": 0, "even": 1, "odd": 1}


def test_without_it_they_come_twice(copied: Copied):
    """So that the test above tests something."""
    assert len(rows(copied.group(None).lines(switchovers=[copied.exact]))) > len(copied.written)


def test_of_some_tables_and_columns(copied: Copied):
    lines = copied.group().lines(switchovers=[copied.exact], tables=["d.t"], columns=["a"])
    assert rows(lines) == copied.written
    assert {tuple(line["after"]) for line in lines if "op" in line} == {("a",)}


@pytest.mark.parametrize("column", [COLUMN, None])
def test_without_positions_all_comes_and_what_may_come_twice_is_marked(copied: Copied, column):
    lines = copied.group(column).lines(switchovers=[copied.by_time()])
    found = rows(lines)
    assert set(found) == set(copied.written)
    unmarked = rows([line for line in lines if not line.get("possible_duplicate")])
    assert len(unmarked) == len(set(unmarked))
    again = [value for at, value in enumerate(found) if value in found[:at]]
    assert set(again) <= marked(lines)
    assert bool(again) == (column is None)


def test_a_reader_goes_on_behind_any_line_of_a_hop_without_positions(copied: Copied):
    group, switchover = copied.group(None), copied.by_time()
    whole = changes(group.lines(switchovers=[switchover]))
    [at] = [at for at, line in enumerate(whole) if "hop" in line]
    for cut in (0, at - 1, at, at + 1, at + 3, len(whole) - 1):
        assert changes(group.lines(whole[cut]["token"], switchovers=[switchover])) == whole[cut + 1 :], whole[cut]


def test_nobody_knows_where_the_old_one_ended_either(copied: Copied):
    """It is read as far as it has landed; the rest is in the new ones."""
    switchover = Switchover("split", {"whole": None}, {"even": None, "odd": None})
    lines = copied.group().lines(switchovers=[switchover], until="landed")
    assert set(rows(lines)) == set(copied.written)
    unmarked = rows([line for line in lines if not line.get("possible_duplicate")])
    assert len(unmarked) == len(set(unmarked))


def test_marks_end_where_somebody_says_that_nothing_was_copied_any_more(copied: Copied):
    group = copied.group(None)
    # By the group's time, of which these clocks may be away by two steps.
    group.clock_bound = 2_000
    last = max(line["committed_at"] for line in group.lines(switchovers=[copied.by_time()]) if "op" in line)
    lines = group.lines(switchovers=[copied.by_time(parse_time(last) - 5 * group.clock_bound)])
    assert rows(lines)[-1] not in marked(lines)
    assert len(marked(lines)) > 1


def test_events_are_marked_as_lines_are(copied: Copied):
    group, switchover = copied.group(None), copied.by_time()
    events = [
        event
        for event in group.stream(switchovers=[switchover])
        if hasattr(getattr(event, "transaction", None), "may_be_copy")
    ]
    lines = [line for line in group.lines(switchovers=[switchover]) if "heartbeat" not in line and "hop" not in line]
    assert [(one.token, one.transaction.epoch, one.transaction.may_be_copy) for one in events] == [
        (line["token"], line.get("epoch", 0), line.get("possible_duplicate", False)) for line in lines
    ]


def test_two_tokens_are_a_hop(copied: Copied, tmp_path, monkeypatch, capsysbinary):
    old = to_text(Token.of("whole", copied.left))
    new = to_text(
        Token.over(place for name, found in copied.entered.items() for place in Token.of(name, found).positions)
    )
    assert switchover_between(old, new, "split") == copied.exact
    names = sorted(copied.worlds)
    settings = "".join(
        f'[sources.{name}]\nconnection = "{name}"\nstore = "{copied.worlds[name].store_url}"\n' for name in names
    )
    lake = tmp_path / "lake" / "landing"
    lake.mkdir(parents=True)
    for name in names:
        (lake / name).symlink_to(f"{copied.worlds[name].lake}/landing/{name}")
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", copied.servers[name].url)
    path = tmp_path / "strata.toml"
    path.write_text(
        f'lake = "lake"\n{settings}[groups.orders]\nsources = ["even", "odd"]\nsource_gtid_column = "{COLUMN}"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(path))
    assert run(["stream", "--group", "orders", "--from", "beginning", "--hop", f"{old},{new}"]) == 0
    found = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert rows(found) == copied.written
    assert run(["stream", "--group", "orders", "--hop", old]) == 2
    assert b"a hop is between two tokens" in capsysbinary.readouterr().err
    assert run(["stream", "--source", "even", "--hop", f"{old},{new}"]) == 2


def test_a_column_that_has_something_else(copied: Copied):
    copied.servers["even"].run_sql(
        "CREATE TABLE _vt.wrong (id INT PRIMARY KEY, pos TEXT); BEGIN; INSERT INTO d.t VALUES (500, 'row 500');"
        "INSERT INTO _vt.wrong VALUES (1, 'binlog.000001:77'); COMMIT; DELETE FROM d.t WHERE id = 500"
    )
    with pytest.raises(SourceSettingsError, match="has something else than the GTID set"):
        copied.group("_vt.wrong.pos").lines(switchovers=[copied.exact])
