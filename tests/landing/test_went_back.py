"""A server whose binlog was reset, or that was restored under its own UUID: it uses numbers again, and is refused as
soon as it has them, however it is asked. A server that has only gone on is not refused, whatever was done to its files.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import SourceDivergedError
from strata_cdc.landing.landed import LandedStream, landing_folder
from tests.landing.landing import executed, land
from tests.mariadb_server import FAMILIES, MariadbServer, start_family
from tests.mysql_server import MysqlServer, launch, start_server
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mysql
HISTORIES = int(os.environ.get("STRATA_HISTORIES", "3"))
HONEST = ("FLUSH BINARY LOGS", "SET GLOBAL binlog_checksum = NONE", "SET GLOBAL binlog_checksum = CRC32", "purge")
COMPRESSION = {False: "binlog_transaction_compression", True: "log_bin_compress"}
"""The setting of MySQL and of MariaDB."""


@pytest.fixture(scope="module", params=FAMILIES)
def server(request, tmp_path_factory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("back"), request.param) as running:
        running.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        yield running


def write(server: MysqlServer, chance: random.Random, count: int) -> None:
    """Some transactions, over one file or several; mostly of the same size, so that places are the same, too."""
    statements = []
    for _ in range(count):
        size = chance.choice((1, 1, 1, 200, 70_000))
        statements.append(f"INSERT INTO d.t (a) VALUES (REPEAT('{chance.choice('xy')}', {size}))")
        if chance.random() < 0.15:
            statements.append("FLUSH BINARY LOGS")
    server.run_sql(";".join(statements))


def be_honest(server: MysqlServer, what: str) -> None:
    if what == "purge":
        purge(server)
    else:
        server.run_sql(what)


def purge(server: MysqlServer) -> None:
    last = server.binlogs()[-1].name
    # MariaDB keeps a file while somebody reads it.
    wait_until(lambda: server.run_sql(f"PURGE BINARY LOGS TO '{last}'") == "" and len(server.binlogs()) == 1)


def claim(server: MysqlServer, number: int) -> None:
    """The server says, as one that was restored from a backup, that it has the transactions up to a number."""
    if isinstance(server, MariadbServer):
        server.run_sql(f"SET GLOBAL gtid_binlog_state = '0-1-{number}'")
    else:
        uuid = server.run_sql("SELECT @@server_uuid").split()[1]
        server.run_sql(f"SET GLOBAL gtid_purged = '{uuid}:1-{number}'")


def segments(lake: Path) -> list[str]:
    return [name for name in landing_folder(str(lake), "s").names() if name.endswith(".binlog")]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_numbers_that_are_used_again(server, tmp_path, seed, caplog):
    """Random histories: the server goes on honestly for a while, then goes back."""
    chance = random.Random(seed)
    compression = COMPRESSION[isinstance(server, MariadbServer)]
    honest = (*HONEST, *(f"SET GLOBAL {compression} = {switch}" for switch in ("ON", "OFF")))
    server.run_sql(server.reset_sql)
    for _ in range(chance.randint(1, 3)):
        write(server, chance, chance.randint(1, 12))
        land(server, tmp_path)
        for what in chance.sample(honest, chance.randint(0, 2)):
            be_honest(server, what)
            assert land(server, tmp_path).transactions == 0
    landed = executed(server)
    assert LandedStream.open(str(tmp_path), "s").executed() == landed
    warned = [one for one in caplog.records if one.name == "strata.land" and one.levelno >= logging.WARNING]
    assert not [record for record in warned if "purged" not in record.message]
    kept = segments(tmp_path)
    server.run_sql(server.reset_sql)
    if chance.random() < 0.5 and landed.count() > 1:
        # A backup says what it has.
        claim(server, chance.randrange(1, landed.count()))
    while executed(server).count() < landed.count() + chance.randint(0, 3):
        # The same statements as before, or others.
        write(server, random.Random(seed) if chance.random() < 0.3 else chance, chance.randint(1, 8))
        with pytest.raises(SourceDivergedError) as caught:
            land(server, tmp_path)
        assert caught.value.gtid
        assert "another source name" in caught.value.remedy
    if executed(server).count() < landed.count():
        write(server, chance, landed.count())
    assert landed <= executed(server), "a count proves nothing any more"
    with pytest.raises(SourceDivergedError) as caught:
        land(server, tmp_path)
    assert caught.value.facts().file
    assert segments(tmp_path) == kept


def test_a_restored_copy(tmp_path):
    lake = tmp_path / "lake"
    folder = tmp_path / "server"
    first = launch(folder)
    try:
        first.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        first.stop()
        shutil.copytree(folder / "data", tmp_path / "backup")
        first = launch(folder)
        first.run_sql("INSERT INTO d.t (a) VALUES ('lost'); INSERT INTO d.t (a) VALUES ('lost too')")
        land(first, lake)
        kept = segments(lake)
        first.stop()
        shutil.rmtree(folder / "data")
        shutil.copytree(tmp_path / "backup", folder / "data")
        first = launch(folder)
        for text in ("new", "newer", "newest"):
            with pytest.raises(SourceDivergedError):
                land(first, lake)
            first.run_sql(f"INSERT INTO d.t (a) VALUES ('{text}')")
        with pytest.raises(SourceDivergedError):
            land(first, lake)
        assert segments(lake) == kept
        assert LandedStream.open(str(lake), "s").executed() <= executed(first)
    finally:
        first.kill()


def test_what_was_purged_cannot_be_compared_and_that_is_said(server, tmp_path, caplog):
    """Numbers that the server says it has had: it goes on there, and says that nothing proves it."""
    server.run_sql(f"{server.reset_sql}; INSERT INTO d.t (a) VALUES ('x'); INSERT INTO d.t (a) VALUES ('y')")
    land(server, tmp_path)
    landed = executed(server)
    server.run_sql("FLUSH BINARY LOGS")
    purge(server)
    server.run_sql("INSERT INTO d.t (a) VALUES ('z')")
    with caplog.at_level(logging.WARNING, "strata.land"):
        assert land(server, tmp_path).transactions == 1
    assert "could not be compared" in caplog.text
    caplog.clear()
    assert land(server, tmp_path).transactions == 0
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING], "what has landed since is there"
    assert landed <= LandedStream.open(str(tmp_path), "s").executed()


def test_a_server_that_was_made_anew_from_its_replica(tmp_path):
    """It has other files than before under its own UUID, and the same history: the times of the commits say so."""
    with start_server(tmp_path / "a") as one, start_server(tmp_path / "b", "--server-id=2") as other:
        one.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        one.run_sql("INSERT INTO d.t (a) VALUES ('x'); INSERT INTO d.t (a) VALUES ('y')")
        land(one, tmp_path / "lake")
        follow(other, one)
        other.run_sql("STOP REPLICA; RESET REPLICA ALL")
        # A replica does not take what has its own number as a server.
        one.run_sql("DROP DATABASE d; RESET BINARY LOGS AND GTIDS; FLUSH BINARY LOGS; SET GLOBAL server_id = 3")
        follow(one, other)
        assert land(one, tmp_path / "lake").transactions == 0
        one.run_sql("STOP REPLICA; RESET REPLICA ALL; INSERT INTO d.t (a) VALUES ('z')")
        assert land(one, tmp_path / "lake").transactions == 1


def follow(replica: MysqlServer, primary: MysqlServer) -> None:
    replica.run_sql(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary.port}, SOURCE_USER='root',"
        " SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA;"
    )
    done = replica.run_sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed(primary)}', 60)")
    assert done.split("\n")[1] == "0"


def test_another_server_that_numbers_for_the_first(tmp_path):
    """A stranger that has used the numbers of the landed server, as one does that is fed from an older backup of it."""
    with start_server(tmp_path / "a") as one, start_server(tmp_path / "b", "--server-id=2") as stranger:
        one.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        land(one, tmp_path / "lake")
        stranger.run_sql(
            "".join(
                f"SET gtid_next = '{sid}:{number}'; BEGIN; COMMIT;"
                for sid, spans in executed(one).items()
                for first, last in spans
                for number in range(first, last + 1)
            )
        )
        with pytest.raises(SourceDivergedError, match="another transaction"):
            land(stranger, tmp_path / "lake")
