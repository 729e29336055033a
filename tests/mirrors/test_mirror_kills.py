"""Dumps, appliers, compactions and vacuums killed at random instants, alone and at once, while somebody reads.

A few of each; fifty in `make soak` (`STRATA_MIRROR_KILLS`).
"""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.mirrors.modes import Mode
from strata_cdc.pipeline.plan.pending import WorkChoice
from tests.mirrors.kill_works import GRACE_SECONDS, TABLES, Killer, Onlooker, fill, move_money
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

KILLS = int(os.environ.get("STRATA_MIRROR_KILLS", "1"))
MODES = list(Mode)[: 1 if KILLS < 10 else 2]
WORKS = (("apply",), ("dump",), ("compact",), ("apply", "apply"), ("apply", "compact"), ("vacuum",))


@pytest.mark.parametrize("mode", MODES)
def test_killed_at_random_instants(server: MysqlServer, tmp_path: Path, mode: Mode) -> None:
    random = Random(int(os.environ.get("STRATA_SEED", "1")))
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path, mode=mode)
    killer, onlooker = Killer(world, random), Onlooker(world)
    fill(world)
    onlooker.start()
    for what in ("apply", "dump", "compact"):
        move_money(world, random, 10)
        world.publish()
        killer.whole(what)
    killer.whole("vacuum")
    for number in range(KILLS):
        for works in WORKS:
            move_money(world, random, 15)
            world.publish(choice=WorkChoice.PENDING)
            # What is read and written right now is too young for it.
            killer.kill(*works, seconds=GRACE_SECONDS)
            if number % 5 == 0:
                killer.whole("apply")
                world.assert_equal()
    killer.whole("apply")
    world.assert_equal()
    onlooker.end()
    killer.whole("compact")
    killer.kill("vacuum")
    killer.whole("vacuum")
    world.assert_equal()
    assert onlooker.seen == []
    assert onlooker.looks > len(TABLES)
    assert sum(killer.killed.values()) >= KILLS
    print(mode, killer.killed, onlooker.looks)
