"""The stream of a group of three servers, each of which numbers in blocks: numbers are missing, and no event is."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from scripts.ports import free_port
from strata_cdc.cli.main import run
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.sets import GtidSet
from tests.landing.landing import executed, land
from tests.landing.test_failover import catch_up, numbers_of, on_server, rows_of, values_of
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mysql, pytest.mark.soak]


@pytest.fixture
def group(tmp_path) -> Iterator[list[MysqlServer]]:
    """Three servers, all of which take writes; each numbers in blocks of 5."""
    seats = [free_port() for _ in range(3)]
    options = (
        "--plugin-load-add=group_replication.so",
        "--performance-schema=ON",
        "--report-host=127.0.0.1",
        "--loose-group-replication-start-on-boot=OFF",
        "--loose-group-replication-group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
        "--loose-group-replication-group-seeds=" + ",".join(f"127.0.0.1:{seat}" for seat in seats),
        "--loose-group-replication-single-primary-mode=OFF",
        "--loose-group-replication-enforce-update-everywhere-checks=ON",
        "--loose-group-replication-gtid-assignment-block-size=5",
        "--loose-group-replication-recovery-get-public-key=ON",
    )
    with ExitStack() as stack:
        members = []
        for number, seat in enumerate(seats, start=1):
            own = (f"--server-id={number}", f"--loose-group-replication-local-address=127.0.0.1:{seat}")
            server = stack.enter_context(start_server(tmp_path / f"m{number}", *options, *own))
            if "group_replication" not in server.run_sql("SHOW PLUGINS"):
                pytest.skip("this MySQL has no Group Replication")
            server.run_sql("RESET BINARY LOGS AND GTIDS")
            first = "SET GLOBAL group_replication_bootstrap_group=ON;" if number == 1 else ""
            server.run_sql(
                f"{first} START GROUP_REPLICATION USER='root'; SET GLOBAL group_replication_bootstrap_group=OFF;"
            )
            members.append(server)
        yield members
        for server in members:
            server.process.kill()  # leaving a group takes half a minute


def test_a_group_of_three(group, tmp_path, capsys):
    first, second, third = group
    first.run_sql("CREATE DATABASE d; CREATE TABLE d.t1 (a INT PRIMARY KEY)")
    for other in (second, third):
        catch_up(other, first)

    def write(server: MysqlServer, begin: int) -> None:
        server.run_sql("".join(f"INSERT INTO d.t1 VALUES ({begin + n});" for n in range(12)))

    writers = [threading.Thread(target=write, args=(server, 100 * n)) for n, server in enumerate(group)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    third.run_sql("ALTER TABLE d.t1 RENAME COLUMN a TO b; ALTER TABLE d.t1 RENAME COLUMN b TO a")
    everything = GtidSet()
    for server in group:
        everything |= executed(server)
    for server in group:
        assert server.run_sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{everything}', 60)").split("\n")[1] == "0"
        numbers = numbers_of(server)
        assert numbers != list(range(1, len(numbers) + 1)), "numbers come in blocks"
    expected = on_server(first, "d", ["t1"])
    for server in group:
        rows, _ = rows_of(server.binlogs(), tmp_path / "rows.jsonl", capsys)
        assert values_of(rows) == expected
    store = f"sqlite:///{tmp_path}/store.db"
    assert run(["--json", "track", *map(str, first.binlogs()), "--source", "s", "--store", store]) == 0
    report = json.loads(capsys.readouterr().out)
    # Whoever comes first may take up what a block has left, so that there need not be a hole.
    assert bool(GtidSet.parse(report["gtid_executed"]).gaps()) == bool(report["notices"])
    lake = tmp_path / "lake"
    land(first, lake)
    second.run_sql("INSERT INTO d.t1 VALUES (7777)")
    land(second, lake)
    assert GtidSet.parse(land(second, lake).executed) == executed(second)
    records = [record for _, record in LandedStream.open(str(lake), "s").records()]
    assert len({record.gtid for record in records}) == len(records)
    rows, _ = rows_of(sorted((lake / "landing" / "s").glob("*.binlog")), tmp_path / "rows.jsonl", capsys)
    assert values_of(rows) == sorted([*expected, ("t1", 7777)])
