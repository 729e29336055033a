"""The stream of a group of real servers. The witness is a sort of what the streams of its sources give."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from strata_cdc.cli.main import run
from strata_cdc.errors import BinlogPurgedError, SettingsError, SourceUnavailableError, StrataError, Usage
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.chunks import SpanTransactions
from strata_cdc.groups.stream import GroupHeartbeat, GroupStream
from strata_cdc.position.token import Order
from strata_cdc.position.token_text import from_text
from strata_cdc.streams.events import RowChange
from strata_cdc.time_text import parse_time
from tests.groups.conftest import NAMES
from tests.groups.world import Shards, changes, lines_of
from tests.mysql_server import MysqlServer, launch
from tests.position.former_texts import former_text
from tests.streams.world import World
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.mysql
TABLE = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT);"


@pytest.fixture(scope="module")
def shards(servers: dict[str, MysqlServer], tmp_path_factory: pytest.TempPathFactory) -> Shards:
    for server in servers.values():
        server.run_sql(TABLE)
    made = Shards.over(servers, tmp_path_factory.mktemp("group"))
    write(made, 6)
    made.land()
    write(made, 6)
    return made


def write(shards: Shards, rounds: int) -> None:
    """Transactions here and there; DDL at other times on other shards."""
    for number in range(rounds):
        for at, world in enumerate(shards.sources):
            if (number + at) % 3:
                world.server.run_sql(
                    f"BEGIN; INSERT INTO t (a) VALUES ('{number}'), ('x'); UPDATE t SET a = 'y' LIMIT 2; COMMIT", "d"
                )
            if number == 4 + at % 2:
                world.server.run_sql(f"ALTER TABLE t ADD c{number}_{time.time_ns()} INT DEFAULT {at}", "d")


def sorted_whole(shards: Shards, **options: Any) -> list[dict[str, Any]]:
    """The lines of all sources by commit time, source, and their place."""
    found = []
    for world in shards.sources:
        lines = [line for line in world.lines(**options) if "heartbeat" not in line]
        found += [(line["committed_at"], world.name, at, line) for at, line in enumerate(lines)]
    return [line for *_, line in sorted(found, key=lambda one: one[:3])]


def bare(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name not in ("token", "version")} for line in lines]


@pytest.fixture(scope="module")
def whole(shards: Shards) -> list[dict[str, Any]]:
    return [line for line in shards.lines() if "heartbeat" not in line]


def test_the_order_is_that_of_time(shards: Shards, whole):
    assert bare(whole) == bare(sorted_whole(shards))
    turns = [name for name, _ in itertools.groupby(line["source"] for line in whole)]
    assert len(turns) > 20


@pytest.mark.parametrize("read", [iter, GroupStream.written])
def test_what_has_been_given_goes_at_once(shards: Shards, read):
    """The rows of a backlog are few objects, so that Python would look for cycles among them too late."""
    gc.collect()
    gc.disable()
    try:
        stream = shards.stream(until="landed")
        assert list(read(stream))
        # By type: `isinstance` asks an object, and a lazy one of another library would import what it stands for.
        assert [one for one in gc.get_objects() if issubclass(type(one), GroupBatch | SpanTransactions)] == []
    finally:
        gc.enable()


def test_rows_under_old_and_new_versions_side_by_side(whole):
    """The same DDL comes to the shards at different times."""
    width = dict.fromkeys(NAMES, 2)
    seen = set()
    for line in whole:
        if "ddl" in line and line["ddl"].startswith("ALTER"):
            width[line["source"]] += 1
        elif line.get("after"):
            assert len(line["after"]) == width[line["source"]]
            seen.add(tuple(width.values()))
    assert any(len(set(widths)) > 1 for widths in seen)


def test_a_reader_goes_on_behind_any_line(shards: Shards, whole):
    for at, line in enumerate(whole):
        if at % 37 == 0 or (line.get("row") == 1 and at % 11 == 0):
            # Every second one with the text that a former version would have written.
            token = line["token"] if at % 2 else former_text(from_text(line["token"]))
            assert changes(shards.lines(token)) == changes(whole[at + 1 :]), line


def test_tokens_are_those_of_the_group_and_go_forward(whole):
    tokens = [from_text(line["token"]) for line in whole]
    assert all(one.compare(two) is Order.BEFORE for one, two in itertools.pairwise(tokens))
    assert all([place.source for place in token.positions] == list(NAMES) for token in tokens)


def test_events_have_the_same_tokens_as_lines(shards: Shards, whole):
    events = [event for event in shards.stream() if not isinstance(event, GroupHeartbeat)]
    assert [event.token for event in events] == [line["token"] for line in whole]
    assert sum(isinstance(event, RowChange) for event in events) == sum("op" in line for line in whole)


def test_what_has_landed_is_the_beginning_of_the_whole(shards: Shards, whole):
    landed = shards.lines(until="landed")
    found = {(line["source"], line["gtid"], line.get("row"), line.get("ddl")) for line in landed}
    assert bare(landed) == [
        line for line in bare(whole) if (line["source"], line["gtid"], line.get("row"), line.get("ddl")) in found
    ]


def test_some_tables_and_the_end_by_token_and_time(shards: Shards, whole):
    assert {line["tables"][0] for line in shards.lines(tables=["d.nothing"]) if "ddl" in line} == set()
    commits = [at for at, line in enumerate(whole) if "commit" in line]
    middle = commits[len(commits) // 2]
    assert changes(shards.lines(until=whole[middle]["token"])) == changes(whole[: middle + 1])
    at = whole[middle]["committed_at"]
    before = changes(shards.lines(until=at))
    assert before + changes(shards.lines(at)) != []
    assert bare(before) == bare([line for line in whole if line["committed_at"] < at])
    assert bare(changes(shards.lines(at))) == bare([line for line in whole if line["committed_at"] >= at])


def test_positions_that_mean_nothing_for_a_group(shards: Shards, whole):
    [first, *_] = shards.sources
    alone = first.lines(until="landed")[-1]["token"]
    with pytest.raises(Usage, match="the token says nothing of shard_b, shard_c"):
        shards.stream(alone)
    with pytest.raises(Usage, match="is no position of a group"):
        shards.stream("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7")
    two = Shards(shards.sources[:2])
    with pytest.raises(Usage, match="the token names shard_c, which the group orders does not have"):
        two.stream(whole[-1]["token"])


def test_a_source_leaves_and_comes_back(shards: Shards, whole, capsys: pytest.CaptureFixture[str]):
    """With what the messages say, nothing of the others is lost, and nothing comes twice."""

    def token(*words: str) -> str:
        capsys.readouterr()
        assert run(["token", *words]) == 0
        return capsys.readouterr().out.strip()

    middle, two = len(whole) // 2, Shards(shards.sources[:2])
    start = whole[middle]["token"]
    with pytest.raises(Usage, match="`strata token without TOKEN shard_c`"):
        two.stream(start)
    rest = changes(two.lines(token("without", start, "shard_c")))
    assert bare(rest) == bare([line for line in changes(whole[middle + 1 :]) if line["source"] != "shard_c"])
    joined = token("merge", rest[-1]["token"], shards.sources[2].lines()[-1]["token"])
    assert not changes(shards.lines(joined))
    again = token("merge", token("without", start, "shard_c"), shards.sources[2].lines()[0]["token"])
    sent = bare([line for line in changes(shards.lines(again)) if line["source"] == "shard_c"])
    assert sent == bare([line for line in changes(whole) if line["source"] == "shard_c"])[1:]


class Following:
    """A reader in a thread; what it has read, as it comes."""

    def __init__(self, shards: Shards, start: str = "now") -> None:
        self.stream, self._start = shards.stream(start, follow=True), start
        self.lines: list[dict[str, Any]] = []
        self.error: StrataError | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for line in lines_of(self.stream):
                self.lines.append(line)
        except StrataError as error:
            self.error = error

    def wait(self, what: Any, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The first line for which something holds."""
        until, at = time.monotonic() + seconds, 0
        while time.monotonic() < until and self.error is None:
            while at < len(self.lines):
                if what(self.lines[at]):
                    return self.lines[at]
                at += 1
            time.sleep(0.02)
        raise AssertionError((self.error, self.lines[-3:]))

    def __enter__(self) -> Following:
        if self._start == "now":
            # Who begins behind a token misses nothing, and servers that are written to may never leave a pause.
            self.wait(lambda line: "heartbeat" in line)
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self._thread.join(PATIENCE_SECONDS)


def is_row(value: str) -> Any:
    return lambda line: (line.get("after") or {}).get("a") == value


def test_silent_sources_do_not_hold_up_who_writes(shards: Shards):
    """Two are silent; what the third writes comes, since their positions prove that nothing is missing."""
    with Following(shards) as reader:
        for number in range(3):
            shards.sources[number].server.run_sql(f"INSERT INTO t (a) VALUES ('alone {number}')", "d")
            reader.wait(is_row(f"alone {number}"))


def test_a_transaction_in_commit_holds_the_watermark(shards: Shards):
    """Its time has been taken, and it is in no executed set yet: only what a server owns tells of it."""
    server = shards.sources[1].server
    with Following(shards) as reader, server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT UUID()")
        [[uuid]] = cursor.fetchall()
        cursor.execute(f"SET gtid_next = '{uuid}:1'")
        cursor.execute("BEGIN")
        reader.wait(lambda line: line.get("held_by") == "shard_b")
        held = next(line for line in reversed(reader.lines) if "heartbeat" in line)
        shards.sources[0].server.run_sql("INSERT INTO t (a) VALUES ('waits')", "d")
        time.sleep(1)
        assert not any(map(is_row("waits"), reader.lines))
        cursor.execute("INSERT INTO t (a) VALUES ('owned')")
        cursor.execute("COMMIT")
        reader.wait(is_row("waits"))
        reader.wait(is_row("owned"))
        assert held["token"] != reader.lines[-1]["token"]


def test_one_that_is_killed_holds_the_watermark_and_is_named_until_it_is_back(shards: Shards, servers, caplog):
    world = shards.sources[2]
    server = world.server
    with Following(shards) as reader:
        server.kill()
        shards.sources[0].server.run_sql("INSERT INTO t (a) VALUES ('meanwhile')", "d")
        wait_until(lambda: "shard_c does not answer" in caplog.text)
        wait_until(lambda: reader.lines[-1].get("held_by") == "shard_c")
        assert not any(map(is_row("meanwhile"), reader.lines))
        with pytest.raises(SourceUnavailableError, match="no watermark without all of its sources") as caught:
            shards.lines("now")
        assert caught.value.source == "shard_c"
        world.server = servers[world.name] = launch(server.folder, *server.options, port=server.port)
        reader.wait(is_row("meanwhile"))
        world.server.run_sql("INSERT INTO t (a) VALUES ('back')", "d")
        reader.wait(is_row("back"))
    began = next(line["token"] for line in reader.lines)
    assert changes(reader.lines) == changes(shards.lines(began))[: len(changes(reader.lines))]


def test_a_member_that_is_not_reachable_at_the_start(shards: Shards):
    """All that are not are named, and nothing is given: there is no watermark without them."""

    class Gone(World):
        @property
        def address(self) -> Any:
            return replace(super().address, port=1)

    first, *others = shards.sources
    gone = replace(shards, sources=[first, *(Gone(one.server, one.folder, one.name) for one in others)])
    stream = gone.stream()
    with pytest.raises(SourceUnavailableError, match=r"shard_b: .*shard_c: ") as caught:
        next(stream.written())
    assert caught.value.source == "shard_b, shard_c"
    # What has landed needs no server.
    assert changes(gone.lines(until="landed")) == changes(shards.lines(until="landed"))


def test_a_server_that_is_two_sources_is_refused(shards: Shards, tmp_path):
    first, second, _ = shards.sources
    again = World(first.server, tmp_path, "again")
    twice = replace(shards, sources=[first, second, again])
    with pytest.raises(SettingsError, match="again and shard_a of the group orders are one server") as caught:
        next(twice.stream().written())
    assert "`sources` of groups.orders" in str(caught.value.remedy)
    again.land()
    again.track()
    with pytest.raises(SettingsError, match="again and shard_a of the group orders have the same transaction"):
        twice.lines(until="landed")


def test_heartbeats_say_how_the_group_stands(shards: Shards):
    with Following(shards) as reader:
        first = reader.wait(lambda line: "heartbeat" in line and line["watermark"])
        second = reader.wait(lambda line: "heartbeat" in line and (line["watermark"] or "") > first["watermark"])
    assert second["held_by"] in NAMES
    assert abs(parse_time(second["held_since"]) / 1_000_000 - time.time()) < 30
    assert 0 <= second["skew_seconds"] < 10
    assert [place.source for place in from_text(second["token"]).positions] == list(NAMES)


def load(world: Any, stop: threading.Event) -> None:
    """Transactions without a pause, DDL among them."""
    with world.server.connect("d") as connection, connection.cursor() as cursor:
        for number in itertools.count():
            if stop.is_set():
                return
            cursor.execute("INSERT INTO t (a) VALUES (%s), (%s)", (f"{number}", "x" * (number % 50)))
            if number % 97 == 96:
                cursor.execute(f"ALTER TABLE t ADD l{number} INT")


def test_three_under_load_and_readers_that_stop_anywhere(shards: Shards):
    """What several readers had, one after the other, is what one has who reads it all later."""
    stop = threading.Event()
    writers = [threading.Thread(target=load, args=(world, stop)) for world in shards.sources]
    with Following(shards) as first:
        began = next(line["token"] for line in first.lines)
        for writer in writers:
            writer.start()
        wait_until(lambda: len(first.lines) > 300 and {line.get("source") for line in first.lines} >= set(NAMES))
    found = list(first.lines)
    for cut in (-1, -7):
        # As if it had been killed in front of the lines that are cut off.
        found = found[:cut] if cut != -1 else found
        with Following(shards, found[-1]["token"]) as reader:
            wait_until(lambda: len(reader.lines) > 100)
        found += reader.lines
    stop.set()
    for writer in writers:
        writer.join()
    whole = changes(shards.lines(began))
    got = changes(found)
    assert got == whole[: len(got)]
    assert len({line["source"] for line in got}) == len(NAMES)
    assert len(got) > 300


def test_a_time_of_what_a_server_has_purged_is_refused_where_nothing_has_landed(servers, tmp_path):
    """The last of this file: it purges."""
    shards = Shards.over(servers, tmp_path)
    shards.lines("2020-01-01", until="landed")
    gone = servers["shard_b"]
    gone.run_sql("FLUSH BINARY LOGS")
    gone.run_sql(f"PURGE BINARY LOGS TO '{gone.binlogs()[-1].name}'")
    with pytest.raises(BinlogPurgedError, match="transactions of that time are nowhere any more") as caught:
        shards.lines("2020-01-01")
    assert caught.value.source == "shard_b"
