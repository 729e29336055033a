"""The life of a shop on a real server: its mirrors are what SELECT gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.jobs.test_replay_proof import LIFE
from tests.mirrors.world import MirrorWorld
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp("mysql")) as running:
        running.run_sql(LIFE)
        yield running


def test_mirrors_equal_select(server: MysqlServer, tmp_path: Path) -> None:
    world = MirrorWorld(server, tmp_path)
    world.publish()
    report = world.update()
    for one in report.mirrors:
        print(one)
    world.assert_equal()
