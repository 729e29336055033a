"""Hops over real servers that replicate with filters: a shard is split, the parts live on, and are merged again.
The witness is what was written: each row exactly once, in the order in which it was written."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import SettingsError, SourceDivergedError, Usage
from strata_cdc.groups.switchovers import Switchover, read_journal
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_text import from_text
from tests.groups.world import Shards, changes, lines_of
from tests.streams.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


def executed(server: MysqlServer) -> GtidSet:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        return GtidSet.parse(cursor.fetchone()[0])


def execute(server: MysqlServer, *statements: str) -> None:
    """As one session; each call of the `mysql` client is a process."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def replicate(replica: MysqlServer, source: MysqlServer, filters: str = "", channel: str = "") -> None:
    named = f"FOR CHANNEL '{channel}'" if channel else ""
    replica.run_sql(
        (f"CHANGE REPLICATION FILTER {filters};" if filters and not channel else "")
        + f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port}, SOURCE_USER='root',"
        f" SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1 {named};"
        # A channel has to be there before it can have a filter.
         + (f"CHANGE REPLICATION FILTER {filters} {named};" if filters and channel else "") + f"START REPLICA {named};"
    )


def catch_up(replica: MysqlServer, source: MysqlServer) -> None:
    wanted = executed(source)
    for _ in range(400):
        if wanted <= executed(replica):
            return
        time.sleep(0.05)
    raise AssertionError(
        replica.run_sql(
            "SELECT LAST_ERROR_MESSAGE FROM performance_schema.replication_connection_status;"
            "SELECT LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker"
        )
    )


class Life:
    """What is written to which server, in order; each value once."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._chance = random.Random(4)

    def write(self, servers: dict[str, MysqlServer], count: int = 12) -> None:
        """To each database on the server that has it."""
        for _ in range(count):
            database = self._chance.choice(sorted(servers))
            value = f"{database} {len(self.values)}"
            execute(servers[database], f"INSERT INTO {database}.t VALUES ({len(self.values)}, '{value}')")
            self.values.append(value)


class Resharded:
    """One shard that was split, and merged again; the journal of it."""

    def __init__(self, servers: dict[str, MysqlServer], folder: Path) -> None:
        whole, one, two = (servers[name] for name in sorted(servers))
        life = Life()
        for database in ("d1", "d2"):
            # Filters go by the default database where a statement is logged.
            whole.run_sql(f"CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT PRIMARY KEY, a TEXT)")
        life.write({"d1": whole, "d2": whole})
        # The parts get what is theirs, first as copies.
        replicate(one, whole, "REPLICATE_DO_DB = (d1)")
        replicate(two, whole, "REPLICATE_DO_DB = (d2)")
        life.write({"d1": whole, "d2": whole})
        catch_up(one, whole)
        catch_up(two, whole)
        one.run_sql("STOP REPLICA; RESET REPLICA ALL; CHANGE REPLICATION FILTER REPLICATE_DO_DB = ()")
        two.run_sql("STOP REPLICA; RESET REPLICA ALL; CHANGE REPLICATION FILTER REPLICATE_DO_DB = ()")
        split = Switchover("split", {"whole": executed(whole)}, {"one": executed(one), "two": executed(two)})
        life.write({"d1": one, "d2": two})
        # And back.
        replicate(whole, one, channel="one")
        replicate(whole, two, channel="two")
        life.write({"d1": one, "d2": two})
        catch_up(whole, one)
        catch_up(whole, two)
        whole.run_sql("STOP REPLICA; RESET REPLICA ALL")
        back = Switchover("back", {"one": executed(one), "two": executed(two)}, {"again": executed(whole)})
        life.write({"d1": whole, "d2": whole})
        self.life, self.switchovers = life, [split, back]
        self.worlds = {
            name: self._world(name, server, folder)
            for name, server in {"whole": whole, "one": one, "two": two, "again": whole}.items()
        }
        journal = folder / "hops.json"
        journal.write_text(json.dumps({"format": 1, "hops": [stored(switchover) for switchover in self.switchovers]}))
        self.group = Shards([self.worlds["again"]], journal=str(journal))
        self.group.former = [self.worlds[name] for name in ("whole", "one", "two")]

    def _world(self, name: str, server: MysqlServer, folder: Path) -> World:
        (folder / name).mkdir()
        world = World(server, folder / name, name)
        world.land()
        world.track()
        return world


def stored(switchover: Switchover) -> dict[str, Any]:
    return {
        "name": switchover.name,
        "from": {name: str(found) for name, found in switchover.old.items()},
        "to": {name: str(found) for name, found in switchover.new.items()},
    }


@pytest.fixture(scope="module")
def resharded(servers: dict[str, MysqlServer], tmp_path_factory: pytest.TempPathFactory) -> Resharded:
    return Resharded(servers, tmp_path_factory.mktemp("hops"))


@pytest.fixture(scope="module")
def whole(resharded: Resharded) -> list[dict[str, Any]]:
    return [line for line in resharded.group.lines() if "heartbeat" not in line]


def values(lines: list[dict[str, Any]]) -> list[str]:
    return [line["after"]["a"] for line in lines if "op" in line]


def test_each_row_comes_once_and_in_its_order(resharded: Resharded, whole):
    assert values(whole) == resharded.life.values
    switchovers = [line for line in whole if "hop" in line]
    assert [
        (switchover["hop"], switchover["epoch"], switchover["from"], switchover["to"]) for switchover in switchovers
    ] == [
        ("split", 1, ["whole"], ["one", "two"]),
        ("back", 2, ["one", "two"], ["again"]),
    ]


def test_without_hops_copies_are_refused(resharded: Resharded):
    """So that the test above tests something: the copies are in the binlogs."""
    copied, found = Shards([resharded.worlds["whole"], resharded.worlds["one"]]), list[dict[str, Any]]()
    with pytest.raises(SettingsError, match="one and whole of the group orders have the same transaction") as caught:
        found.extend(lines_of(copied.stream()))
    twice = GtidSet.parse(str(caught.value.gtid))
    assert all(twice <= executed(world.server) for world in copied.sources)
    assert len(values(found)) == len(set(values(found)))


def test_a_reader_goes_on_behind_any_line_over_hops(resharded: Resharded, whole):
    switchovers = [at for at, line in enumerate(whole) if "hop" in line]
    near = {at + off for at in switchovers for off in (-1, 0)}
    for at in sorted(near | {0, len(whole) - 1}):
        found = changes(resharded.group.lines(whole[at]["token"]))
        assert found == changes(whole[at + 1 :]), whole[at]


def test_what_the_old_sources_had_is_in_the_tokens_of_the_new_ones(resharded: Resharded, whole):
    """A reader of a new source alone has what was written to the old one, as far as it was copied with its GTIDs."""
    split, back = resharded.switchovers
    at = {line["hop"]: number for number, line in enumerate(whole) if "hop" in line}
    written = {"split": ("whole", split.old["whole"] & split.new["one"]), "back": ("one", back.old["one"])}
    stranger = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1")
    for switchover, source in (("split", "one"), ("back", "again")):
        [*others, last] = [line for line in whole[at[switchover] :] if line.get("source", source) == source]
        for line in (*others[:3], last):
            alone = Token((next(one for one in from_text(line["token"]).positions if one.source == source),))
            name, position = written[switchover]
            assert position
            assert Token.of(name, position).compare(alone) is Order.BEFORE, line
            assert Token.of(name, position | stranger).compare(alone) is Order.UNKNOWN


def test_vitess_5746_new_ones_begin_when_all_old_ones_have_ended(whole):
    switchovers = [at for at, line in enumerate(whole) if "hop" in line]
    for at in switchovers:
        for source in whole[at]["from"]:
            assert all(line.get("source") != source for line in whole[at:])
        for source in whole[at]["to"]:
            assert all(line.get("source") != source for line in whole[:at])


def test_vitess_9386_and_16737_each_line_names_its_source_and_hops_are_in_the_stream(whole):
    assert all(("source" in line) != ("hop" in line) for line in whole)
    assert sum("hop" in line for line in whole) == 2


def test_vitess_16621_who_goes_on_in_front_of_a_hop_gets_it_again(resharded: Resharded, whole):
    for at in [at for at, line in enumerate(whole) if "hop" in line]:
        assert changes(resharded.group.lines(whole[at - 1]["token"]))[0] == whole[at]


def test_vitess_15395_old_servers_may_be_gone_once_what_they_had_has_landed(resharded: Resharded, whole):
    """There they must not be deleted between two streams."""

    class Gone(World):
        @property
        def address(self) -> Any:
            return replace(super().address, port=1)

    former = [Gone(one.server, one.folder, one.name) for one in resharded.group.former]
    group = replace(resharded.group, former=former)
    found = changes(group.lines())
    assert found[: len(whole)] == changes(whole)


def test_the_end_may_be_in_front_of_a_hop(resharded: Resharded, whole):
    for at in [at for at, line in enumerate(whole) if "hop" in line]:
        assert changes(resharded.group.lines(until=whole[at - 1]["token"])) == changes(whole[:at])


def test_a_token_names_no_new_source_in_front_of_its_hop(whole):
    seen: set[str] = {"whole"}
    for line in whole:
        seen |= set(line.get("to", ()))
        assert {place.source for place in from_text(line["token"]).positions} <= seen


def test_now_is_behind_all_hops(resharded: Resharded):
    lines = resharded.group.lines("now")
    assert [line for line in lines if "op" in line] == []
    resharded.worlds["again"].server.run_sql("INSERT INTO t VALUES (9999, 'later')", "d1")
    resharded.life.values.append("later")
    token = from_text(lines[-1]["token"]) if lines else None
    assert token is None or {place.source for place in token.positions} == {"again"}


def test_the_same_hop_twice_is_one(resharded: Resharded, whole):
    found = resharded.group.lines(switchovers=[*resharded.switchovers, *resharded.switchovers])
    assert changes(found)[: len(whole)] == changes(whole)


def test_a_position_that_nobody_has(resharded: Resharded):
    [split, back] = resharded.switchovers
    uuid = str(split.old["whole"]).split(":")[0]
    wrong = Switchover("split", {"whole": GtidSet.parse(f"{uuid}:1-99999")}, split.new)
    with pytest.raises(SourceDivergedError, match="the hop 'split' names a position that nobody has") as caught:
        resharded.group.lines(switchovers=[wrong, back])
    assert caught.value.source == "whole"


def test_what_a_time_does_not_tell(resharded: Resharded):
    with pytest.raises(Usage, match="on which side of a hop"):
        resharded.group.stream("2026-01-01")


WRONG = {
    "no JSON": ("{", "is not what it should be"),
    "a newer one": ('{"format": 3, "hops": []}', "has format 3"),
    "no set": ({"name": "x", "from": {"whole": "1-5"}, "to": {"again": ""}}, "has a position that is none"),
    "unknown": ({"name": "x", "from": {"hole": ""}, "to": {"again": ""}}, "names hole, which the settings do not have"),
    "nowhere": ({"name": "x", "from": {"whole": ""}, "to": {"one": ""}}, "leads to one, which the group does not"),
    "still there": ({"name": "x", "from": {"again": ""}, "to": {"one": ""}}, "which the group"),
    "half of it": ({"name": "x", "from": {"one": ""}, "to": {"again": "", "two": None}}, "and not of all"),
    "a hole": ({"name": "x", "from": {"one": None}, "to": {"again": ""}}, "what is between would be lost"),
    "said twice": (
        {"name": "x", "from": {"one": ""}, "to": {"again": ""}, "copied_until": "2026-11-23T00:00:00Z"},
        "copied_until says nothing",
    ),
    "in a circle": ({"name": "x", "from": {"whole": ""}, "to": {"whole": ""}}, "once more"),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_journals_that_are_wrong(resharded: Resharded, tmp_path, name):
    text, said = WRONG[name]
    path = tmp_path / "hops.json"
    path.write_text(text if isinstance(text, str) else json.dumps({"format": 2, "hops": [text]}))
    group = Shards(resharded.group.sources, former=resharded.group.former, journal=str(path))
    with pytest.raises(SettingsError, match=said) as caught:
        group.stream()
    assert caught.value.file == str(path)


def test_two_different_hops_of_one_name(resharded: Resharded, tmp_path):
    path = tmp_path / "hops.json"
    two = [stored(resharded.switchovers[0]), {**stored(resharded.switchovers[0]), "to": {"one": ""}}]
    path.write_text(json.dumps({"format": 1, "hops": two}))
    with pytest.raises(SettingsError, match="two hops 'split' that are different"):
        read_journal(str(path))
