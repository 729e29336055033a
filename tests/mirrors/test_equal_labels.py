"""ALTERs that change the labels of an ENUM or SET, without a strict mode: two labels may be equal under the collation,
and the server then gives rows the first of them. A mirror has what the server has, or it stops and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mariadb_server import FAMILIES, start_family
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
SWEDISH = "CHARACTER SET latin1 COLLATE latin1_swedish_ci"
LITHUANIAN = "CHARACTER SET utf8mb4 COLLATE utf8mb4_lithuanian_ci"
GENERAL = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
BINARY = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


@pytest.fixture(scope="module", params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("labels"), request.param) as server:
        yield server


@pytest.mark.parametrize(
    ("before", "after", "values", "mode", "follows"),
    [
        (f"ENUM('x','y','ü') {SWEDISH}", f"ENUM('new','ü','y','x') {SWEDISH}", (1, 2, 3), "", False),
        (f"SET('x','y','ü') {SWEDISH}", f"SET('ü','y','x') {SWEDISH}", (1, 2, 3, 4, 7), "", False),
        (f"ENUM('i','y') {LITHUANIAN}", f"ENUM('y','i') {LITHUANIAN}", (1, 2), "", False),
        (f"ENUM('a','A') {BINARY}", f"ENUM('A','a') {GENERAL}", (1, 2), "", False),
        (f"VARCHAR(9) {SWEDISH}", f"ENUM('ü','y') {SWEDISH}", ("'y'", "'ü'"), "", False),
        (f"ENUM('x','y','ü') {BINARY}", f"ENUM('ü','y','x') {BINARY}", (1, 2, 3), "", True),
        (f"ENUM('x','y','z z') {GENERAL}", f"ENUM('z z','y','x') {GENERAL}", (1, 2, 3), "", True),
        (f"ENUM('x','y','ö') {GENERAL}", f"ENUM('ö','y','x') {GENERAL}", (1, 2, 3), "STRICT_TRANS_TABLES", True),
        (f"ENUM('x','y','ü') {SWEDISH}", f"ENUM('x','y','ü') {SWEDISH} NOT NULL", (1, 2, 3), "", True),
    ],
)
def test_the_mirror_is_the_table_or_says_why(
    server: MysqlServer, tmp_path: Path, before: str, after: str, values: tuple[int, ...], mode: str, *, follows: bool
) -> None:
    server.run_sql(f"DROP DATABASE IF EXISTS shop; {server.reset_sql}; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
    world.server.run_sql(
        f"SET sql_mode = ''; CREATE TABLE t (id INT PRIMARY KEY, e {before}); INSERT INTO t VALUES {rows}", "shop"
    )
    world.publish()
    world.update()
    world.assert_equal()
    world.server.run_sql(f"SET sql_mode = '{mode}'; ALTER TABLE t MODIFY e {after}", "shop")
    world.publish()
    [mirror] = world.update().mirrors
    if follows:
        assert mirror.behind is None
        world.assert_equal()
    else:
        assert "labels may be equal under" in (mirror.behind or "")
