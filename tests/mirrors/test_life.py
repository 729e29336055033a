"""The life of a shop on a real server: its mirrors are what SELECT gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mirrors.world import MirrorWorld
from tests.quality.test_replay_proof import LIFE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    server.run_sql(LIFE)
    return server


def test_mirrors_equal_select(server: MysqlServer, tmp_path: Path) -> None:
    world = MirrorWorld(server, tmp_path)
    world.publish()
    report = world.update()
    for one in report.mirrors:
        print(one)
    world.assert_equal()
