"""A database `shop`, whose past is queried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.past.past_world import PastWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return PastWorld(server, tmp_path, name="shop")
