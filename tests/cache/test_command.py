"""`strata cache`: followed, killed, started again, inspected; what it refuses, and that it prints no secret."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc import tokens
from strata_cdc.cache.invalidator import Report, Start
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cli import cache as cli_cache
from strata_cdc.cli.main import run
from strata_cdc.errors import CacheRefusedError, CacheUnavailableError, Usage
from strata_cdc.position.sets import GtidSet
from tests.cache.scene import SHAPES, Scene
from tests.redis_server import start_redis
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.streams.world import World

pytestmark = pytest.mark.mysql
_MAIN = "import sys; from strata_cdc.cli.main import main; sys.argv = ['strata', *sys.argv[1:]]; main()"


def started(world: World, url: str, *words: str) -> subprocess.Popen[str]:
    """`strata cache WORDS`."""
    folder = world.folder
    (folder / "strata.toml").write_text(
        f'lake = "{world.lake}"\nstore = "{world.store_url}"\n[sources.s]\nconnection = "m"\n'
    )
    tables = "".join(
        f"[shapes.{shape.name}]\n"
        + "".join(f'"{table}" = {list(columns)}\n' for table, columns in shape.tables.items())
        for shape in SHAPES.shapes
    )
    (folder / "cache.toml").write_text(f'source = "s"\n{tables}')
    environment = {
        **os.environ,
        "STRATA_SETTINGS": str(folder / "strata.toml"),
        "AIRFLOW_CONN_M": world.server.url,
        "STRATA_CACHE_URL": url,
    }
    command = [sys.executable, "-c", _MAIN, "cache", *words, "--shapes", str(folder / "cache.toml"), "--name", "c"]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def outcome(process: subprocess.Popen[str], code: int = 0) -> str:
    text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, text
    return text


class Life(threading.Thread):
    """One that writes or reads until it is told to stop."""

    def __init__(self, world: World, ended: threading.Event) -> None:
        super().__init__()
        self.connection, self.ended = world.server.connect("d"), ended
        self.start()

    def run(self) -> None:
        with self.connection:
            for number in range(1, 1_000_000):
                if self.ended.wait(0.003):
                    return
                self.do(number, number % 2 + 1)

    def sql(self, statement: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()


class Writer(Life):
    def __init__(self, *given: Any) -> None:
        self.written: dict[int, list[tuple[GtidSet, int]]] = {1: [], 2: []}
        super().__init__(*given)

    def do(self, number: int, key: int) -> None:
        self.sql(f"UPDATE orders SET state = '{number}' WHERE id = {key}")
        self.written[key].append((tokens.include(self.connection, source="s").positions[0].position, number))


class Reader(Life):
    def __init__(self, writer: Writer, cache: Cache, *given: Any) -> None:
        self.writer, self.cache, self.faults = writer, cache, []
        super().__init__(*given)

    def do(self, number: int, key: int) -> None:
        # What the checkpoint has now was acknowledged before the read.
        state = self.cache.server.look()
        done = state.checkpoint if state is not None and state.is_here else GtidSet()
        least = max((one for reached, one in self.writer.written[key][-400:] if reached <= done), default=0)

        def load() -> bytes:
            return self.sql(f"SELECT state FROM orders WHERE id = {key}")[0].encode()

        value = int(self.cache.get("order", (key,), load, connection=self.connection))
        if value < least:
            self.faults.append((key, value, least))


def test_readers_and_writers_while_the_invalidator_is_killed(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 1, '0'), (2, 1, '0')")
    ended = threading.Event()
    writer = Writer(scene.world, ended)
    readers = [Reader(writer, Cache(scene.url, "c", SHAPES), scene.world, ended) for _ in range(2)]
    process = started(scene.world, scene.url, "follow", "--log", "100000")
    wait_for(scene)
    wait_for_hits(readers)
    process.kill()
    process.communicate()
    process = started(scene.world, scene.url, "follow", "--log", "100000")
    wait_for(scene)
    wait_for_hits(readers)
    ended.set()
    for thread in (writer, *readers):
        thread.join()
    process.send_signal(signal.SIGTERM)
    assert "transactions" in outcome(process)
    for reader in readers:
        assert not reader.faults
        reader.cache.close()
    # Before it may be a warning: other tests have deleted binlogs of the same server.
    found = json.loads(outcome(started(scene.world, scene.url, "inspect", "--json")).splitlines()[-1])
    assert found["transactions"] > 10
    assert found["findings"] == []


def wait_for(scene: Scene) -> None:
    """Until what has been executed by now is invalidated."""
    executed = tokens.include(scene.connection, source="s").positions[0].position

    def is_there() -> bool:
        state = scene.cache.server.look()
        return state is not None and executed <= state.checkpoint

    wait_until(is_there)


def wait_for_hits(readers: list[Reader]) -> None:
    """Until each has been served some more from the cache."""
    before = [reader.cache.counts.hits for reader in readers]
    wait_until(lambda: all(one.cache.counts.hits > had + 10 for one, had in zip(readers, before, strict=True)))


def test_a_cache_that_is_not_there(world: World):
    cache = Cache("redis://me:sesame@127.0.0.1:1/0", "c", SHAPES)
    with pytest.raises(CacheUnavailableError) as error:
        cache.read("order", (1,))
    assert "redis://127.0.0.1:1/0" in str(error.value)
    assert "sesame" not in str(error.value)
    with world.server.connect("d") as connection:
        assert cache.get("order", (1,), lambda: b"of the server", connection=connection) == b"of the server"
    assert cache.counts.without == 1
    text = outcome(started(world, "redis://me:sesame@127.0.0.1:1/0", "follow", "--once"), code=3)
    assert "does not answer" in text
    assert ".." not in text
    assert "sesame" not in text
    urls = ("sesame", "redis://:sesame@host:port/0", "http://:sesame@host/", "redis://:sesame@host/0?odd=sesame")
    for wrong in urls:
        with pytest.raises(Usage) as refused:
            CacheServer(wrong, "c")
        assert "sesame" not in str(refused.value)


def test_causes_that_take_turns_are_printed_once_each(capsys: pytest.CaptureFixture[str]):
    """Some nodes of a cluster say that it is down, others do not answer. After it has gone on, each is news again."""
    follower: Any = SimpleNamespace(report=Report(), stop=lambda: None)
    causes = iter(["down", "no answer", "down", "no answer", "on", "down"])

    def follow(**_: Any) -> Report:
        for cause in causes:
            if cause != "on":
                raise CacheUnavailableError(cause)
            follower.report.transactions += 1
        return follower.report

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    cli_cache._go_on(follower, follow, Start.CHECKPOINT, 0.0)
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
        signal.signal(number, handler)
    outcome = [line.split(": ")[1].rstrip(".") for line in capsys.readouterr().err.splitlines()]
    assert outcome == ["down", "no answer", "down"]


def test_help_has_the_whole_url(capsys: pytest.CaptureFixture[str]):
    assert run(["cache", "follow", "--help"]) == 0
    assert "redis://user:secret@host:6379/0" in capsys.readouterr().out


@pytest.mark.parametrize("back", ["nan", "inf", "1e300", "-1"])
def test_a_time_back_that_is_none(back: str, capsys: pytest.CaptureFixture[str]):
    assert run(["cache", "follow", "--once", "--back", back]) == 2
    assert "--back" in capsys.readouterr().err


def test_a_cache_that_lets_nobody_in_or_refuses_scripts(tmp_path):
    with start_redis(tmp_path, password="sesame") as server:
        wrong = CacheServer(server.url.replace("sesame", "sesam"), "c")
        with pytest.raises(CacheRefusedError, match="does not let us in") as error:
            wrong.look()
        assert "sesam" not in str(error.value)
        assert "Give its user and password" in str(error.value)
        assert ".." not in str(error.value)
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "weak", "on", ">sesame", "~*", "+@all", "-@scripting")
        weak = CacheServer(server.url.replace(":sesame", "weak:sesame"), "c")
        with pytest.raises(CacheRefusedError, match=r"\+evalsha"):
            weak.look()
        with server.client() as client:
            client.config_set("maxmemory", "1")
        full = CacheServer(server.url, "c")
        assert full.look() is None
        assert CacheServer(f"{server.url}?decode_responses=true", "c").look() is None
        with pytest.raises(CacheUnavailableError, match="maxmemory"):
            full.run("fill", ["x"], ["h", "s", "w", "", "N", 0])
        for one in (wrong, weak, full):
            one.close()
