"""Servers of each family on which scripts are executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mariadb_server import FAMILIES, start_family
from tests.past.undo.undo_world import UndoWorld, fresh
from tests.seeds import are_drawn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """MySQL and the newest MariaDB; all families where `make soak` has time, or a file's `EACH_FAMILY` says so."""
    if "server" in metafunc.fixturenames:
        is_each = are_drawn() or hasattr(metafunc.module, "EACH_FAMILY")
        metafunc.parametrize("server", FAMILIES if is_each else FAMILIES[:2], indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """A server for the tests of one file."""
    with start_family(tmp_path_factory.mktemp("family"), request.param) as running:
        yield running


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> UndoWorld:
    """An empty database `shop` on it, and an empty lake."""
    fresh(server)
    return UndoWorld(server, tmp_path, name="shop")
