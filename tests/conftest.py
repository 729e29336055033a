"""Fixtures that all rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def mysql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """One server for the whole run; a test makes databases of its own in it."""
    with start_server(tmp_path_factory.mktemp("mysql")) as server:
        yield server
