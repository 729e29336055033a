"""Update streams over HTTP: a real server, a real client, a real MySQL. What a reader gets is what `strata stream`
gives, whoever else reads, however often the server is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import httpx
import psutil
import pytest

from scripts.ports import free_port
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import UnforeseenError
from strata_cdc.position.token_text import to_text
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.sources import Sources
from strata_cdc.serve.streaming.hub import Hub
from strata_cdc.serve.streaming.routes import add_streams
from strata_cdc.streams.positions import parse_bound
from strata_cdc.tokens import of_executed
from tests.mysql_server import start_server
from tests.serve.conftest import TOKEN, app_of, served
from tests.streams.world import World
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.mysql

STRATA = str(Path(sys.executable).with_name("strata"))
SETTINGS = """
lake = "lake"
clock_bound = "5s"
store = "sqlite:///store.db"
[sources.s]
connection = "c"
[sources.dead]
connection = "dead"
"""
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def world(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("streaming")
    (folder / "settings.toml").write_text(SETTINGS)
    server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
    server.run_sql("CREATE TABLE d.u (id INT PRIMARY KEY, b INT); INSERT INTO d.u VALUES (1, 1)")
    made = World(server, folder)
    made.land()
    made.track()
    return made


def variables(world):
    return {
        "STRATA_SETTINGS": str(world.folder / "settings.toml"),
        "AIRFLOW_CONN_C": f"mysql://root@127.0.0.1:{world.server.port}/",
        "AIRFLOW_CONN_DEAD": "mysql://root:hidden@127.0.0.1:1/",
    }


@pytest.fixture(scope="module")
def address(world):
    with streaming(world) as found:
        yield found


@contextmanager
def streaming(world, limits=Limits()):
    """The address of a server of its own."""
    app = app_of(lambda: load_settings(variables(world)))
    streams = add_streams(app, Sources(lambda: load_settings(variables(world))), limits)
    with served(app, streams, timeout_graceful_shutdown=2) as found:
        yield found


@contextmanager
def alone(world, **limits):
    """The address of a server whose streams end with their readers, and it with them."""
    before = set(threading.enumerate())
    with streaming(world, Limits(linger_seconds=0.1, **limits)) as found:
        yield found
        # The server notices a connection that is gone when it sends the next heartbeat.
        wait_until(lambda: not any(is_of_a_stream(thread) for thread in threading.enumerate() if thread not in before))


def is_of_a_stream(thread):
    return thread.name.startswith(("reader", "stream of"))


class Reader(threading.Thread):
    """Follows a stream in a thread of its own."""

    def __init__(self, address, last_event_id="", **asked):
        super().__init__()
        self.events, self.closed, self.status, self.fault = [], False, None, None
        self.began = threading.Event()
        self._url = f"{address}/api/streams/s"
        # It ends with a line, and a heartbeat is one.
        self._asked = {"heartbeat": 0.5, **asked}
        self._headers = HEADERS | ({"Last-Event-ID": last_event_id} if last_event_id else {})
        self.start()

    def run(self):
        with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client, ExitStack() as stack:
            try:
                answer = stack.enter_context(client.stream("GET", self._url, params=self._asked, headers=self._headers))
                self.status = answer.status_code
                if self.status == 200:
                    self.follow(answer)
            except httpx.HTTPError as error:
                self.fault = error

    def follow(self, answer):
        event = {}
        for line in answer.iter_lines():
            self.began.set()
            name, _, value = line.partition(": ")
            if line:
                event[name] = value
            else:
                self.events += [event] if "data" in event else []
                event = {}
            if self.closed:
                return

    @property
    def lines(self):
        return [json.loads(event["data"]) for event in self.events if "heartbeat" not in event["data"]]

    def wait(self, reached):
        wait_until(lambda: self.lines and reached(self.lines[-1]))

    def __enter__(self):
        assert self.began.wait(PATIENCE_SECONDS), (self.status, self.fault)
        return self

    def __exit__(self, *_):
        self.closed = True
        self.join(PATIENCE_SECONDS)


def executed(world):
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        return cursor.fetchone()[0].replace("\n", "")


def dumps(world):
    """Connections that read the server's stream, and have not been given up."""
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW PROCESSLIST")
        return sum(command.startswith("Binlog Dump") for _, _, _, _, command, *_ in cursor.fetchall())


def ask(address, path="s", **options):
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        return client.get(f"{address}/api/streams/{path}", **{"headers": HEADERS, **options})


def is_commit_of(gtid_set):
    last = gtid_set.rsplit("-", 1)[-1].rsplit(":", 1)[-1]
    return lambda line: line.get("commit") and line["gtid"].endswith(f":{last}")


WISHES = ({}, {"tables": ["d.t"]}, {"tables": ["*.u"], "columns": ["B"]}, {"columns": ["id", "none"]})


def params(wish):
    columns = {"columns": ",".join(wish["columns"])} if "columns" in wish else {}
    return {"table": wish.get("tables", []), **columns}


@pytest.mark.parametrize("wish", WISHES)
def test_a_reader_gets_the_lines_of_the_stream_with_their_tokens(world, address, wish):
    answer = ask(address, params={"from": "beginning", "until": "now", **params(wish)})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event for event in answer.text.split("\n\n") if "data:" in event]
    assert answer.text.startswith("retry: 5000\n")
    wanted = b"".join(world.stream("beginning", until="now", **wish).written()).decode().splitlines()
    found = [event.split("\n") for event in events]
    assert [data for _, data in found if "heartbeat" not in data] == [f"data: {line}" for line in wanted]
    assert [token for token, _ in found] == [f"id: {json.loads(data[6:])['token']}" for _, data in found]
    # Behind the end there is nothing: a browser does not come again.
    last = {"Last-Event-ID": found[-1][0][4:], **HEADERS}
    behind = ask(address, params={"until": found[-1][0][4:], **params(wish)}, headers=last)
    assert (behind.status_code, behind.content) == (204, b"")


def write(world, count, first):
    for number in range(first, first + count):
        world.server.run_sql(
            f"BEGIN; INSERT INTO t (a) VALUES ('{number}'), (NULL); REPLACE INTO u VALUES (1, {number}); COMMIT;"
            f"INSERT INTO t (a) VALUES (REPEAT('é', {number}));",
            "d",
        )


def test_no_client_takes_a_text_for_the_end_of_a_line(world, address):
    """httpx, and with it the example of the documentation, cuts lines as `str.splitlines()` does."""
    start, text = executed(world), "a\x85b\u2028c\\\u2029d\x0b\x0c\x1c\x1d\x1e\r\né"
    world.server.run_sql("INSERT INTO d.t (a) VALUES (" + f"0x{text.encode().hex()})")
    for params in ({"until": "now"}, {}):
        with Reader(address, **{"from": start}, **params) as reader:
            reader.wait(is_commit_of(executed(world)))
        assert reader.lines[0]["after"]["a"] == text


def test_readers_that_have_caught_up_share_one_decode_and_get_what_they_would_alone(world, address):
    begin = executed(world)
    with ExitStack() as stack:
        readers = [
            stack.enter_context(Reader(address, **{"from": begin}, heartbeat=0.2, **params(wish)))
            for wish in (*WISHES, *WISHES, {}, {})
        ]
        write(world, 3, 0)
        world.server.run_sql("ALTER TABLE t ADD c INT DEFAULT 3 AFTER id", "d")
        write(world, 3, 3)
        late = stack.enter_context(Reader(address, **{"from": begin}))
        end = executed(world)
        for reader in (*readers, late):
            if not reader._asked.get("table"):
                reader.wait(is_commit_of(end))
        late.wait(is_commit_of(end))
        wait_until(lambda: dumps(world) == 1)
        write(world, 2, 6)
        world.server.run_sql(
            "ALTER TABLE t DROP c; REPLACE INTO u VALUES (1, 0); INSERT INTO t (a) VALUES ('end')", "d"
        )
        wishes = (*WISHES, *WISHES, {}, {}, {})
        wanted = [strip(world.lines(begin, until="now", **wish)) for wish in wishes]
        for reader, lines in zip((*readers, late), wanted, strict=True):
            wait_until(lambda reader=reader, lines=lines: len(reader.lines) >= len(lines))
        wait_until(lambda: "heartbeat" in readers[0].events[-1]["data"])
    for reader, lines, wish in zip((*readers, late), wanted, wishes, strict=True):
        assert strip(reader.lines) == lines, wish
    heartbeats = [event for event in readers[0].events if "heartbeat" in event["data"]]
    assert heartbeats
    assert all(json.loads(event["data"])["token"] == event["id"] for event in heartbeats)


def strip(lines):
    """Without the ids of versions that the store does not have: they count what one decode has tracked."""
    return [{name: value for name, value in line.items() if name != "version"} for line in lines]


def test_each_reader_goes_on_behind_any_line(world, address):
    begin = executed(world)
    write(world, 2, 50)
    end = executed(world)
    with Reader(address, **{"from": begin}) as first:
        first.wait(is_commit_of(end))
    whole = [event for event in first.events if "heartbeat" not in event["data"]]
    for at, event in enumerate(whole[:-1]):
        # Heartbeats come often, as the reader ends at the next line that comes.
        with Reader(address, last_event_id=event["id"], heartbeat=0.2) as reader:
            reader.wait(is_commit_of(end))
        assert [one for one in reader.events if "heartbeat" not in one["data"]] == whole[at + 1 :]


def test_a_slow_reader_stops_nobody_and_loses_nothing(world):
    begin = executed(world)
    with ExitStack() as stack:
        address = stack.enter_context(alone(world, recent_bytes=100_000))
        host, port = address.removeprefix("http://").split(":")
        slow = stack.enter_context(socket.create_connection((host, int(port))))
        quick = stack.enter_context(Reader(address, **{"from": begin}))
        asked = f"GET /api/streams/s?from={begin} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        slow.sendall(f"{asked}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        for _ in range(30):
            world.server.run_sql("INSERT INTO t (a) VALUES (REPEAT('x', 500000))", "d")
        world.server.run_sql("INSERT INTO t (a) VALUES ('last')", "d")
        end = executed(world)
        quick.wait(is_commit_of(end))
        received = bytearray()
        slow.settimeout(PATIENCE_SECONDS)
        until = time.monotonic() + PATIENCE_SECONDS
        while f':{end.rsplit("-", 1)[-1]}","committed_at"'.encode() not in received[-2000:]:
            got = slow.recv(1 << 20)
            assert got, received[-300:]
            assert time.monotonic() < until, (len(received), received[-600:])
            received += got
    text = b"".join(chunk_of(bytes(received))).decode()
    lines = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {") and line.endswith("}")]
    found = [line for line in lines if "heartbeat" not in line]
    assert found == quick.lines[: len(found)]
    assert len(found) == 62


def chunk_of(received):
    """The body of a chunked answer."""
    _, _, rest = received.partition(b"\r\n\r\n")
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        yield rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]


def test_who_goes_away_frees_everything(world):
    with alone(world) as address, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Reader(address, heartbeat=0.1))
        for _ in range(2):
            stack.enter_context(Reader(address, until="2999-01-01", heartbeat=0.1))
        wait_until(lambda: dumps(world) >= 3)
    wait_until(lambda: not dumps(world))


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def process(world, port, *options, **more):
    environment = os.environ | variables(world) | {"STRATA_SERVE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"} | more
    command = [STRATA, "serve", "--port", str(port), *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as started:
        try:
            started.stdout.readline()
            wait_until(lambda: is_listening(port))
            yield started
        finally:
            started.kill()


def test_streams_end_with_the_server_after_a_whole_event(world):
    """Those with an end of their own are cut, so that nobody takes what there is for all of it."""
    begin = executed(world)
    with streaming(world) as address:
        reader, bounded = (Reader(address, **{"from": begin}, **asked) for asked in ({}, {"until": "2999-01-01"}))
        world.server.run_sql("INSERT INTO t (a) VALUES ('last')", "d")
        for one in (reader, bounded):
            one.wait(is_commit_of(executed(world)))
    for one in (reader, bounded):
        one.join(PATIENCE_SECONDS)
    assert (reader.fault, type(bounded.fault)) == (None, httpx.RemoteProtocolError)
    assert [strip(one.lines) for one in (reader, bounded)] == [strip(world.lines(begin, until="now"))] * 2


def test_a_reader_goes_on_when_the_server_was_killed(world):
    begin, port = executed(world), free_port()
    address, events, last = f"http://127.0.0.1:{port}", [], ""
    for round_ in range(3):
        with process(world, port) as started, Reader(address, last_event_id=last, **{"from": begin}) as reader:
            write(world, 2, 100 + 2 * round_)
            reader.wait(lambda _: len(reader.lines) > 3)
            started.send_signal(signal.SIGKILL)
            reader.join(PATIENCE_SECONDS)
        events += reader.events
        last = events[-1]["id"]
    with process(world, port), Reader(address, last_event_id=last) as reader:
        end = executed(world)
        write(world, 1, 200)
        reader.wait(is_commit_of(executed(world)))
    events += reader.events
    found = [json.loads(event["data"]) for event in events if "heartbeat" not in event["data"]]
    assert found == world.lines(begin, until="now")
    assert end != begin


def test_a_hundred_idle_readers_cost_next_to_nothing(world):
    port = free_port()
    with process(world, port) as started, ExitStack() as stack:
        mine = psutil.Process(started.pid)
        request = f"GET /api/streams/s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        readers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)) for _ in range(100)
        ]
        for reader in readers:
            reader.sendall(request)
        for reader in readers:
            assert reader.recv(100).startswith(b"HTTP/1.1 200")
        wait_until(lambda: dumps(world) == 1)
        # Those that were let in last may still be joining the others.
        wait_until(lambda: cost_of(mine, 2) < 0.05)
        world.server.run_sql("INSERT INTO t (a) VALUES ('for all')", "d")
        for reader in readers:
            got = b""
            while b"for all" not in got:
                got += reader.recv(1 << 16)


def cost_of(mine, seconds):
    """CPU seconds a second."""
    before = sum(mine.cpu_times()[:2])
    time.sleep(seconds)
    return (sum(mine.cpu_times()[:2]) - before) / seconds


def test_a_fault_of_one_table_is_told_to_its_readers_only(world, address):
    world.server.run_sql("CREATE TABLE f (a INT)", "d")
    with (
        Reader(address, table="d.t", heartbeat=0.2) as other,
        Reader(address, table="d.f", heartbeat=0.2) as mine,
    ):
        wait_until(lambda: dumps(world) == 1)
        world.server.run_sql("SET sql_log_bin = 0; ALTER TABLE f ADD b TEXT; SET sql_log_bin = 1", "d")
        world.server.run_sql("INSERT INTO f VALUES (1, 'x'); INSERT INTO t (a) VALUES ('behind the fault')", "d")
        mine.join(PATIENCE_SECONDS)
        other.wait(lambda line: line.get("commit"))
    assert not mine.is_alive()
    assert mine.events[-1]["event"] == "fault"
    facts = json.loads(mine.events[-1]["data"])
    assert (facts["error"], facts["table"]) == ("SchemaMismatchError", "d.f")
    assert [line["after"]["a"] for line in other.lines if "op" in line] == ["behind the fault"]
    world.server.run_sql("SET sql_log_bin = 0; ALTER TABLE f DROP b; SET sql_log_bin = 1; DROP TABLE f", "d")


def test_what_means_nothing_is_refused_with_a_reason(world, address):
    token = to_text(of_executed("s", executed(world)))
    other = to_text(of_executed("elsewhere", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"))
    lineage = to_text(of_executed("s", executed(world), lineage="older"))
    never = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    for status, error, path, asked, header in (
        (400, "InvalidTokenError", "s", {"from": token[:-1]}, ""),
        (400, "InvalidTokenError", "s", {}, token[:-1]),
        (400, "Usage", "s", {"from": other}, ""),
        (400, "Usage", "s", {"from": lineage}, ""),
        (400, "InvalidGtidSetError", "s", {"from": "yesterday"}, ""),
        (400, "Usage", "s", {"until": "beginning"}, ""),
        (400, "Usage", "s", {"table": "t"}, ""),
        (400, "Usage", "s", {"tables": "d.t"}, ""),
        (400, "Usage", "s", {"columns": ["id", "v"]}, ""),
        (404, "UnknownSourceError", "nobody", {}, ""),
        (409, "SourceDivergedError", "s", {"from": f"{executed(world)},{never}"}, ""),
        (503, "SourceUnavailableError", "dead", {}, ""),
    ):
        headers = HEADERS | ({"Last-Event-ID": header} if header else {})
        answer = ask(address, path, params=asked, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
        assert "hidden" not in answer.text
    for wrong, said in (("0", "is less than 0.1"), ("nan", "is no finite number")):
        answer = ask(address, params={"heartbeat": wrong})
        assert (answer.status_code, said in answer.json()["message"]) == (422, True)
    assert ask(address, headers={}).status_code == 401


def test_a_position_that_is_nowhere_any_more_says_what_can_be_had(tmp_path):
    (tmp_path / "settings.toml").write_text(SETTINGS)
    with start_server(tmp_path / "server") as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT); FLUSH BINARY LOGS; INSERT INTO d.t VALUES (1)")
        name = server.run_sql("SHOW BINARY LOGS").split("\n")[2].split("\t")[0]
        server.run_sql(f"PURGE BINARY LOGS TO '{name}'")
        world = World(server, tmp_path)
        with streaming(world) as address:
            uuid = executed(world).split(":")[0]
            answer = ask(address, params={"from": f"{uuid}:1"})
            assert answer.status_code == 410
            assert answer.json()["error"] == "BinlogPurgedError"
            earliest = answer.json()["earliest"]
            assert earliest == f"{uuid}:1-2"


def test_tokens_are_compared_and_merged(address):
    one, two = (to_text(of_executed("s", f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{last}")) for last in (7, 9))
    other = to_text(of_executed("s", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1", lineage="x"))
    with httpx.Client(base_url=f"{address}/api/tokens/", headers=HEADERS, trust_env=False, timeout=60) as client:
        assert client.get("compare", params={"a": one, "b": two}).json() == {"order": "before"}
        assert client.get("compare", params={"a": one, "b": other}).json() == {"order": "unknown"}
        times = [to_text(of_executed(f"s{at}", "", committed_at=at * 10_000_000)) for at in (1, 2)]
        asked = {"a": times[0], "b": times[1]}
        assert client.get("compare", params=asked).json() == {"order": "before"}
        assert client.get("compare", params=asked | {"clock_bound": 60}).json() == {"order": "unknown"}
        for wrong in ("nan", "inf", "-1", "soon"):
            assert client.get("compare", params=asked | {"clock_bound": wrong}).status_code == 422
        assert client.get("merge", params={"token": [one, two]}).json() == {"token": two}
        assert client.post("merge", json={"tokens": [two, one]}).json() == {"token": two}
        assert client.get("show", params={"token": one}).json()[0]["source"] == "s"
        assert client.get("merge", params={"token": [one, other]}).status_code == 409
        assert client.get("show", params={"token": "v1.x"}).status_code == 400
        described = client.get(f"{address}/openapi.json").json()["paths"]
        assert described["/api/streams/{source}"]["get"]["responses"].keys() >= {"200", "400", "410", "503"}
        for path in ("openapi.json", "api/tokens/show", "api/tokens/compare", "api/tokens/merge"):
            assert client.get(f"{address}/{path}", headers={"Authorization": ""}).status_code == 401


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"tokens": [NaN]}', "the field 'tokens' cannot be read: Input should be a valid string"),
        ('{"tokens": [1e999]}', "the field 'tokens' cannot be read: Input should be a valid string"),
        ('{"tokens": "\\ud800"}', "the field 'tokens' cannot be read: Input should be a valid list"),
        ("{", "the field '' cannot be read: JSON decode error"),
    ],
)
def test_a_body_that_json_cannot_repeat_is_refused(address, body, said):
    sent = {"content": body, "headers": HEADERS | {"Content-Type": "application/json"}}
    answer = httpx.post(f"{address}/api/tokens/merge", **sent, trust_env=False, timeout=PATIENCE_SECONDS)
    assert (answer.status_code, answer.json()["message"]) == (422, said)


def test_short_addresses_answer_the_same(address):
    token = to_text(of_executed("s", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"))
    table = {"source": "s", "database": "d", "table": "t"}
    pairs = [
        ("stream?source=s&from=beginning&until=landed", "api/streams/s?from=beginning&until=landed"),
        (f"token/show?token={token}", f"api/tokens/show?token={token}"),
        (f"token/compare?a={token}&b={token}", f"api/tokens/compare?a={token}&b={token}"),
        (f"token/merge?token={token}", f"api/tokens/merge?token={token}"),
        (f"schema/show?{urlencode(table)}", f"api/schema?{urlencode(table)}"),
        (f"schema/history?{urlencode(table)}", f"api/history?{urlencode(table)}"),
    ]
    with httpx.Client(base_url=f"{address}/", trust_env=False, timeout=PATIENCE_SECONDS, headers=HEADERS) as client:
        for short, listed in pairs:
            answer = client.get(short)
            assert (answer.status_code, answer.content) == (200, client.get(listed).content)
            assert client.get(short, headers={"Authorization": ""}).status_code == 401
        for wrong, said in (
            ("stream?from=now", "the parameter 'source' is missing"),
            ("stream?source=s&tables=d.t", "a stream has no parameter 'tables'"),
            ("stream?source=none", "there is no source 'none'"),
            ("schema/show?source=s", "the parameter 'database' is missing"),
            ("token/compare?a=x", "the parameter 'b' is missing"),
        ):
            answer = client.get(wrong, headers={"Accept": "text/html"})
            assert said in answer.json()["message"]


class Odd(World):
    """Of whose lake nobody foresaw the error."""

    @property
    def lake(self):
        raise RuntimeError("can't start new thread: secret")


def test_what_nobody_foresaw_ends_a_stream_and_readers_are_told(world, caplog):
    """A thread that is gone without a word leaves its readers with heartbeats for ever."""
    start = parse_bound(to_text(of_executed("s", executed(world))), "s", "")

    async def follow():
        hub = Hub(Odd(world.server, world.folder), start, Limits())
        assert await hub.wait(hub.recent.next, PATIENCE_SECONDS)
        assert hub.is_over
        return hub.failed

    failed = asyncio.run(follow())
    assert isinstance(failed, UnforeseenError)
    assert "an unforeseen RuntimeError at" in str(failed)
    assert "secret" not in str(failed)
    assert "can't start new thread" in caplog.text


@pytest.mark.parametrize("waiting", [0, 20])
def test_a_loop_that_is_closed_leaves_no_thread(world, waiting):
    """While the stream lingers for its next reader, and nothing comes, or more has come than was taken."""
    source = load_settings(variables(world)).source("s")
    before = set(threading.enumerate())
    loop = asyncio.new_event_loop()

    async def begin():
        start = parse_bound(to_text(of_executed("s", executed(world), lineage=source.lineage)), "s", source.lineage)
        return Hub(source, start, Limits(linger_seconds=3600))

    hub = loop.run_until_complete(begin())
    [thread] = [one for one in set(threading.enumerate()) - before if is_of_a_stream(one)]
    for _ in range(waiting):
        world.server.run_sql("INSERT INTO u (id, b) SELECT MAX(id) + 1, 0 FROM u", "d")
    time.sleep(1)
    assert thread.is_alive()
    loop.close()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert not hub.is_over
