"""Random ALTERs without a trace in the binlog, read late: no row is published with the values of other columns."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.mariadb_server import FAMILIES, MariadbServer, start_family
from tests.schema.random_unlogged import TYPES, UnloggedWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
TABLES = 40


@pytest.fixture(scope="module", params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("unlogged"), request.param) as running:
        yield running


def test_rows_are_right_or_refused(server: MysqlServer, tmp_path: Path) -> None:
    types = [*TYPES, "UUID", "INET6", "BINARY(16)"] if isinstance(server, MariadbServer) else TYPES
    tally = UnloggedWorld(server, tmp_path, Random(7), types).run(TABLES)
    assert tally.wrong == []
    # The last two of each table are after the snapshot, the first two of some show that they are from before.
    assert tally.equal > 2 * TABLES + 10
    assert tally.refused > 2 * TABLES
