"""A MariaDB server that keeps its binlog in its storage engine (12.3), as a script that sends what a real server wrote
to files: it lands as those files do, whatever breaks, and what cannot be proved is refused."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.domain_gtid import parse_gtid_list
from strata_cdc.binlog.protocol.engine_file import ENGINE_FILE
from strata_cdc.binlog.protocol.replication import BinlogStream, EventBytes
from strata_cdc.binlog.protocol.visible_state import read_schema_state, read_visible_state
from strata_cdc.errors import (
    BinlogPurgedError,
    CorruptEventError,
    SourceDivergedError,
    SourceSettingsError,
    SourceUnavailableError,
    UnsupportedEventError,
)
from strata_cdc.landing.first_landing import FirstMoment
from strata_cdc.landing.follow_binlog import follow_binlog
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.resume_landing import LandingGoal
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from tests.binlog.engine_server import UID, EngineServer, Group, groups_of, running
from tests.binlog.test_mariadb_on_server import write_at_random
from tests.mariadb_server import start_mariadb
from tests.seeds import seeds
from tests.streams.world import World, bare
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql
SEGMENT_BYTES = 6_000
DDL = """
CREATE TABLE other (id INT PRIMARY KEY, a TEXT, CHECK (id > 0));
INSERT INTO other VALUES (1, 'x'), (2, REPEAT('y', 500));
SET binlog_alter_two_phase = ON; ALTER TABLE other ADD b DECIMAL(9, 2) DEFAULT 1.5, ALGORITHM = COPY;
UPDATE other SET b = 2; RENAME TABLE other TO others;
CREATE TABLE chosen AS SELECT id, b FROM others;
SET gtid_domain_id = 8; ALTER TABLE chosen DROP b, ADD c UUID; INSERT INTO chosen VALUES (3, UUID());
SET gtid_domain_id = 0; TRUNCATE others; DROP TABLE others; DELETE FROM chosen WHERE id = 1
"""


class EngineWorld(World):
    """A source whose server is a script."""

    at: ServerAddress

    @property
    def address(self) -> ServerAddress:
        return self.at


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory) -> Iterator[MariadbServer]:
    """A real server with transactions of every kind, in several files and domains."""
    with start_mariadb(tmp_path_factory.mktemp("real"), "11.8", "--max-binlog-size=40000") as server:
        server.run_sql("RESET MASTER; CREATE DATABASE shop")
        write_at_random(server, 5)
        server.run_sql(DDL, "shop")
        assert len(server.binlogs()) > 3
        yield server


@pytest.fixture
def script(mariadb, request) -> EngineServer:
    chance = random.Random(request.node.name)
    return EngineServer(*groups_of(mariadb.binlogs(), chance), chance)


def small(script: EngineServer, count: int = 12) -> EngineServer:
    """The same with its first transactions only."""
    return EngineServer(script.groups[:count], script.form, script.chance)


def world_of(folder: Path, address: ServerAddress) -> EngineWorld:
    world = EngineWorld(None, folder, segment_bytes=SEGMENT_BYTES)  # type: ignore[arg-type]
    world.at = address
    return world


def land(address: ServerAddress, lake: Path | str, **options):
    return land_binlog(address, lake=str(lake), source="s", segment_bytes=SEGMENT_BYTES, **options)


def without_positions(events: bytes, checksum_bytes: int) -> list[bytes]:
    found, at = [], 0
    while at < len(events):
        length = int.from_bytes(events[at + 9 : at + 13], "little")
        event = events[at : at + length]
        found.append(event[:9] + event[17:19] + event[19 : length - checksum_bytes])
        at += length
    return found


def transactions(lake: Path | str) -> list[tuple[str, list[bytes]]]:
    """GTIDs and bytes of what has landed, apart from what the two kinds of binlogs have differently."""
    found = []
    stream = LandedStream.open(str(lake), "s")
    for segment in stream.segments:
        with open_binlog(segment.url) as binlog:
            for of, record in stream.records():
                if of.name == segment.name:
                    data = binlog.buffer[record.begin : record.end].tobytes()
                    found.append((str(record.gtid), without_positions(data, binlog.format.checksum_bytes)))
    return found


def assert_lies_well(lake: Path | str) -> None:
    """Segments follow each other in one file without a gap, each with the position at which it begins."""
    end = 4
    for segment in LandedStream.open(str(lake), "s").segments:
        summary = segment.summary
        assert (segment.name.binlog_file, segment.name.offset) == (ENGINE_FILE, end)
        end = summary.server_end
        with open_binlog(segment.url) as binlog:
            data = binlog.buffer.tobytes()
            at = 4 + int.from_bytes(data[13:17], "little")
            assert data[at + 4] == 163
            listed = parse_gtid_list(data[at + 19 : at + int.from_bytes(data[at + 9 : at + 13], "little")])
            assert str(listed.gtid_set) == summary.executed_before
            begin = at + int.from_bytes(data[at + 9 : at + 13], "little")
            position = segment.name.offset
            while begin < len(data):
                length = int.from_bytes(data[begin + 9 : begin + 13], "little")
                position += length
                assert int.from_bytes(data[begin + 13 : begin + 17], "little") == position & 0xFFFFFFFF
                begin += length
            assert position == end


def assert_is_everything(script: EngineServer, lake: Path | str) -> None:
    wanted = [
        (f"{one.domain}-{one.server}-{one.seq}", without_positions(b"".join(one.events), 0)) for one in script.groups
    ]
    assert transactions(lake) == wanted
    assert_lies_well(lake)


def decoded(world: World) -> list[dict]:
    left_out = ("token", "version", "binlog_file", "binlog_pos", "file", "pos", "position", "lineage")
    return [
        {name: value for name, value in line.items() if name not in left_out} for line in world.lines(until="landed")
    ]


def versions(world: World) -> list[tuple]:
    engine = open_store(world.store_url)
    found = [
        (
            (one.seq, one.statement_no),
            (one.gtid, one.gtid_executed, one.seq and one.committed_at),
            (one.origin, one.name, one.fingerprint, one.gap, one.column_ids, one.effect_text),
        )
        for one in SchemaStore(engine).all_entries("s")
    ]
    engine.dispose()
    return found


def test_it_lands_as_files_do(mariadb, script, tmp_path):
    plain = World(mariadb, tmp_path / "plain", segment_bytes=SEGMENT_BYTES)
    plain.land()
    plain.track()
    with running(script) as address:
        world = world_of(tmp_path / "engine", address)
        world.land()
        assert len(LandedStream.open(world.lake, "s").segments) > 5
        assert_is_everything(script, world.lake)
        assert transactions(world.lake) == transactions(plain.lake)
        world.track()
        assert decoded(world) == decoded(plain)
        assert len(decoded(world)) > 150
        assert versions(world) == versions(plain)
        assert len(versions(world)) > 10
        assert land(address, world.lake).transactions == 0


def test_a_live_server_is_streamed_as_it_lands(script, tmp_path):
    """Also places are the same, since both count the same bytes from where the landed stream ends."""
    landed_world, live = tmp_path / "landed", tmp_path / "live"
    live.mkdir()
    with running(script) as address:
        world, other = world_of(landed_world, address), world_of(live, address)
        world.land()
        whole = [bare(line) for line in world.lines(until="landed")]
        assert [bare(line) for line in other.lines()] == whole
        # A part has landed, and the rest comes from the server; from any token on, also in a transaction.
        script.visible = script.chance.randrange(20, len(script.groups))
        other.land()
        script.visible = len(script.groups)
        lines = other.lines()
        assert [bare(line) for line in lines] == whole
        for at in script.chance.sample(range(len(lines)), 5):
            assert other.lines(lines[at]["token"]) == lines[at + 1 :]


@pytest.mark.soak
def test_the_connection_breaks_at_any_packet(script, tmp_path):
    """At each packet of a short stream, and then once more in what is left."""
    script = small(script, 9)
    with running(script) as address:
        land(address, tmp_path / "whole")
        for packets in range(sum(len(group.events) for group in script.groups)):
            lake = tmp_path / str(packets)
            script.packets = packets
            with pytest.raises(SourceUnavailableError):
                land(address, lake)
            landed = len(transactions(lake))
            assert transactions(lake) == transactions(tmp_path / "whole")[:landed]
            script.packets = script.chance.randrange(packets + 1)
            with suppress(SourceUnavailableError):
                land(address, lake)
            script.packets = None
            land(address, lake)
            assert_is_everything(script, lake)


@pytest.mark.parametrize("seed", seeds(soaked=2))
def test_it_is_followed_over_broken_connections(script, tmp_path, seed):
    script.chance.seed(seed)
    script.visible, stopped = 1, threading.Event()
    seen: list[int] = []

    def write() -> None:
        for _ in range(12):
            time.sleep(0.1)
            script.packets = script.chance.choice([None, script.chance.randrange(200)])
            script.visible = min(script.visible + script.chance.randrange(40), len(script.groups))
        script.packets, script.visible = None, len(script.groups)

    with running(script) as address:
        writer = threading.Thread(target=write)
        writer.start()
        options = {"segment_bytes": SEGMENT_BYTES, "segment_seconds": 0.3, "stop": stopped.is_set}
        follower = threading.Thread(
            target=follow_binlog,
            args=(address,),
            kwargs={
                "lake": str(tmp_path),
                "source": "s",
                "progress": lambda at: seen.append(at.transactions),
                **options,
            },
        )
        follower.start()
        writer.join()
        wait_until(lambda: seen and seen[-1] == len(script.groups))
        stopped.set()
        follower.join()
    assert_is_everything(script, tmp_path)


def test_what_is_not_durable_yet(script, tmp_path):
    """The server sends it a moment after it has executed it; if it never does, that is an error to be tried again."""
    script.durable = 20
    with running(script) as address:
        timer = threading.Timer(1.0, setattr, (script, "durable", None))
        timer.start()
        land(address, tmp_path)
        timer.join()
        assert_is_everything(script, tmp_path)
        script.durable = 20
        with pytest.raises(SourceUnavailableError, match="heartbeats"):
            land(replace(address, limits=replace(address.limits, idle_seconds=1)), tmp_path / "never")
    assert len(transactions(tmp_path / "never")) == 20


def test_a_server_without_transactions(script, tmp_path):
    empty = EngineServer(script.groups, script.form, script.chance)
    empty.visible = 0
    with running(empty) as address:
        assert land(address, tmp_path).segments == 1
        assert land(address, tmp_path).segments == 0
        empty.visible = len(script.groups)
        land(address, tmp_path)
    assert_is_everything(script, tmp_path)


def test_what_it_has_purged(script, tmp_path):
    script.first = len(script.groups) // 2
    with running(script) as address:
        with pytest.raises(BinlogPurgedError) as gone:
            land(address, tmp_path)
        assert "land_from" in gone.value.remedy
        # Of several snapshots, the oldest after which the server still has everything.
        begins = [FirstMoment(parse_executed(script.position(count))) for count in (1, script.first, script.first + 3)]
        with pytest.raises(BinlogPurgedError):
            land(address, tmp_path, begins=begins[:1])
        report = land(address, tmp_path, begins=begins)
        assert report.transactions == len(script.groups) - script.first
        assert land(address, tmp_path).transactions == 0
        # What it purges later had landed; what it purges before it has landed is noticed.
        late = tmp_path / "late"
        script.first, script.visible = 0, 20
        land(address, late)
        script.first, script.visible = 30, len(script.groups)
        with pytest.raises(BinlogPurgedError):
            land(address, late)
    assert len(transactions(late)) == 20


def changed(group: Group, seconds: int = 0) -> Group:
    """The same GTID with another transaction."""
    first = (int.from_bytes(group.events[0][:4], "little") + seconds).to_bytes(4, "little") + group.events[0][4:]
    last = bytearray(group.events[-1])
    last[-1] ^= 1
    return Group(group.domain, group.server, group.seq, [first, *group.events[1:-1], bytes(last)], group.file_no)


def test_the_same_numbers_of_another_history(script, tmp_path):
    script.visible = 30
    with running(script) as address:
        land(address, tmp_path)
        for seconds, uid in ((0, UID), (5, "another")):
            # The server itself has other bytes; another server has another time.
            script.uid, script.visible = uid, len(script.groups)
            before = script.groups[29]
            script.groups[29] = changed(before, seconds)
            with pytest.raises(SourceDivergedError):
                land(address, tmp_path)
            script.groups[29] = before
        # Another server has the same second.
        land(address, tmp_path)
    assert_is_everything(script, tmp_path)


def test_a_server_that_lacks_what_has_landed(script, tmp_path):
    with running(script) as address:
        land(address, tmp_path)
        script.visible = 40
        with pytest.raises(SourceDivergedError, match="lacks transactions"):
            land(address, tmp_path)


def test_a_number_that_the_binlog_lacks(script, tmp_path):
    """The server would begin at the next number of the same writer, and leave out what another one wrote before it."""
    groups = small(script, 3).groups
    one, other = Group(5, 1, 7, groups[2].events), Group(5, 2, 8, groups[2].events)

    def numbered(group: Group, seq: int) -> Group:
        head = group.events[0]
        gtid = head[:5] + group.server.to_bytes(4, "little") + head[9:19] + seq.to_bytes(8, "little")
        gtid += (5).to_bytes(4, "little") + head[31:]
        return Group(5, group.server, seq, [gtid, *group.events[1:]])

    script.groups = [numbered(one, 7), numbered(one, 8)]
    script.visible = 2
    with running(script) as address:
        land(address, tmp_path)
        script.groups = [numbered(one, 7), numbered(other, 9), numbered(one, 10)]
        script.visible, script.uid = 3, "another"
        with pytest.raises(SourceDivergedError, match="missing the GTID 5-1-8"):
            land(address, tmp_path)
    assert [gtid for gtid, _ in transactions(tmp_path)] == ["5-1-7", "5-1-8"]


def test_an_event_that_is_missing(script, tmp_path):
    """The first one has the GTID and the last one ends the transaction: without either, it is no transaction."""
    where = next(number for number, one in enumerate(script.groups) if number > 9 and len(one.events) > 3)
    whole = script.groups[where].events
    with running(script) as address:
        for left in (whole[1:], whole[:-1]):
            lake = tmp_path / str(len(left) + (left is whole))
            script.groups[where].events = left
            with pytest.raises(CorruptEventError):
                land(address, lake)
        alone = next(number for number, one in enumerate(script.groups) if len(one.events) == 2)
        script.groups[where].events = whole
        script.groups[alone].events = script.groups[alone].events[1:]
        with pytest.raises(CorruptEventError, match="GTID"):
            land(address, tmp_path / "statement")


def test_a_packet_that_is_missing(script, tmp_path):
    """Packets have numbers."""
    with running(script) as address:
        lost = script.groups[5].events[1]
        original = script.serve

        def serve(peer) -> None:
            send = peer.send

            def dropping(payload: bytes) -> None:
                if payload[1:] == lost:
                    peer.number += 1
                else:
                    send(payload)

            peer.send = dropping
            original(peer)

        script.serve = serve  # type: ignore[method-assign]
        with pytest.raises(CorruptEventError, match="protocol"):
            land(address, tmp_path)


def test_offsets_beyond_4_gib(script, tmp_path):
    """An event may end at a multiple of 4 GiB, in the middle of a transaction: the header then says 0."""
    script = small(script, 40)
    with running(script) as address:
        land(address, tmp_path / "whole")
        lengths = [len(event) for group in script.groups for event in group.events]
        for events in script.chance.sample(range(1, len(lengths)), 12):
            begin = (1 << 32) - sum(lengths[:events])
            stream = BinlogStream.open(address)
            items = stream.read_events("", after=BinlogPosition.from_offset(ENGINE_FILE, begin))
            data = b"".join(bytes(item.data) for item in items if isinstance(item, EventBytes))
            stream.close()
            assert len(data) == sum(lengths)
            lake = tmp_path / str(events)
            land_from(script, address, lake, begin)
            found = [record.binlog_pos for _, record in LandedStream.open(str(lake), "s").records()]
            whole = [record.binlog_pos for _, record in LandedStream.open(str(tmp_path / "whole"), "s").records()]
            assert found == [at - 4 + begin for at in whole]
            assert transactions(lake) == transactions(tmp_path / "whole")


def land_from(script: EngineServer, address: ServerAddress, lake: Path, begin: int) -> None:
    """Lands everything as if so many bytes of other transactions had landed before."""
    script.visible = 0
    land(address, lake)
    for path in (lake / "landing" / "s").glob("*-engine-binlog.*"):
        path.rename(path.with_name(path.name.replace(f"{4:012}", f"{begin:012}")))
    script.visible = len(script.groups)
    land(address, lake)


def test_what_needs_positions_is_refused(script, tmp_path):
    with running(script) as address:
        stream = BinlogStream.open(address)
        with pytest.raises(SourceSettingsError, match="binlog_storage_engine"):
            stream.files()
        with pytest.raises(SourceSettingsError, match="binlog_storage_engine"):
            next(iter(stream.read_events(BinlogPosition.from_offset("binlog.000001", 4))))
        stream.close()
        connection = BinlogStream.open(address)._connection

        def rows(statement: str):
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()

        with pytest.raises(SourceSettingsError, match="binlog_storage_engine"):
            read_visible_state(rows)
        assert read_schema_state(rows).executed == script.position()
        land(address, tmp_path)
        assert LandingGoal.from_server(address).is_reached(LandedStream.open(str(tmp_path), "s"))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "binlog-000000.ibb").write_bytes(b"\xfe\xfe\x0d\x01" + bytes(16380))
    for read in (lambda: land_files(str(folder), lake=str(tmp_path / "lake"), source="s"), lambda: opened(folder)):
        with pytest.raises(UnsupportedEventError, match="storage engine"):
            read()


def opened(folder: Path) -> None:
    with open_binlog(folder / "binlog-000000.ibb"):
        pass
