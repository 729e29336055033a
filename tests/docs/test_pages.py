"""What the pages say is typed as it stands there, on a real server with a past, and gives what they show."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest

from scripts.local_airflow import migrated_database
from scripts.ports import free_port
from tests.docs.pages import Block, read_blocks
from tests.docs.reader import BIN, REPOSITORY, WIDTH, Reader
from tests.docs.shared_spark import shared_spark
from tests.mysql_server import MysqlServer, start_server
from tests.redis_server import start_redis
from tests.spark_session import spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
PASSWORD = "correct-horse-battery-staple"
YEARS_AGO = """
CREATE DATABASE shop; USE shop;
CREATE TABLE customers (
  id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, email VARCHAR(80) NOT NULL, age TINYINT UNSIGNED
);
CREATE TABLE orders (
  id BIGINT PRIMARY KEY AUTO_INCREMENT, customer INT UNSIGNED NOT NULL, total DECIMAL(10,2) NOT NULL,
  state ENUM('new', 'paid') NOT NULL DEFAULT 'new'
);
CREATE TABLE items (id INT PRIMARY KEY, price DECIMAL(10,2));
INSERT INTO customers (email, age) VALUES ('ann@example.org', 41), ('bob@example.org', 17);
INSERT INTO orders (customer, total) VALUES (1, 10.00), (2, 20.50);
FLUSH BINARY LOGS;
INSERT INTO orders (customer, total) VALUES (2, 7.25);
"""
"""Rows that no binlog has any more, and some that the oldest one has."""
SINCE = """
INSERT INTO items VALUES (1, 10.25);
ALTER TABLE items MODIFY price DECIMAL(12,2);
INSERT INTO items VALUES (2, 1234567890.25);
UPDATE orders SET state = 'paid' WHERE id = 2;
"""
"""What `reading.md` speaks of."""


def variables() -> dict[str, str]:
    """Those of a terminal that knows nothing of Strata yet."""
    return {
        **{name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ},
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COLUMNS": str(WIDTH),
        "TERM": "dumb",
        # The machine has other tests to do.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
    }


def blocks(page: str) -> list[Block]:
    """What there is to type, which a text alone is not; the commands of `make` have tests of their own."""
    found = (block for block in read_blocks(REPOSITORY / page) if block.language != "text")
    return [block for block in found if not block.text.startswith("make ")]


@contextmanager
def server_with_a_past(folder: Path) -> Iterator[MysqlServer]:
    """A server that has purged its first binlogs."""
    with start_server(folder) as running:
        running.run_sql(YEARS_AGO)
        running.run_sql(f"PURGE BINARY LOGS TO '{running.binlogs()[-1].name}'")
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """The server of somebody who reads one page after the other."""
    with server_with_a_past(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def user(server: MysqlServer, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who has followed `your-server.md`, and goes on from there."""
    placeholders = {
        "db.example:3306": f"{server.host}:{server.port}",
        "PASSWORD": PASSWORD,
        "/path/to/strata": str(REPOSITORY),
    }
    reader = Reader(tmp_path_factory.mktemp("reader"), server, placeholders, variables())
    if migrated_database().exists():
        # `airflow db migrate` finds its work done, by set-up, which runs the same.
        home = reader.folder / "airflow"
        home.mkdir()
        shutil.copyfile(migrated_database(), home / "airflow.db")
    with shared_spark(spark, tmp_path_factory.mktemp("submit")) as shared:
        reader.environment |= shared
        for block in blocks("docs/your-server.md"):
            reader.type(block)
        # At its end Airflow has the connection; the other pages are for a terminal.
        url = f"mysql://strata:{PASSWORD}@{server.host}:{server.port}/"
        reader.run(f"export AIRFLOW_CONN_MYSQL_SHOP={url} PYTHONPATH={shared['PYTHONPATH']}")
        yield reader


@pytest.mark.spark
def test_a_server_with_a_past_becomes_checked_tables(user: Reader) -> None:
    assert (user.folder / "lake" / "changes" / "shop" / "shop" / "orders" / "_delta_log").is_dir()


@pytest.mark.spark
def test_the_tables_are_read_as_the_page_says(user: Reader, server: MysqlServer, spark: Any) -> None:
    server.run_sql(SINCE, "shop")
    user.run("strata run")
    user.names["spark"] = spark
    for block in blocks("docs/reading.md"):
        user.type(block)


@pytest.mark.spark
@pytest.mark.parametrize("page", ["docs/settings.md", "docs/checks.md", "docs/schema-history.md", "docs/reconcile.md"])
def test_what_other_pages_say_of_that_server(user: Reader, page: str) -> None:
    for block in blocks(page):
        # The account is there already: its statements are those of `your-server.md`.
        if block.language != "sql":
            user.type(block)


def test_tokens(tmp_path: Path, server: MysqlServer) -> None:
    reader = Reader(tmp_path, server, {}, variables())
    for block in blocks("docs/tokens.md"):
        reader.type(block)


def test_streams(tmp_path: Path) -> None:
    with server_with_a_past(tmp_path / "server") as server:
        port = str(free_port())
        placeholders = {"db.example:3306": f"{server.host}:{server.port}", "8090": port}
        reader = Reader(tmp_path, server, placeholders, variables())
        try:
            for block in blocks("docs/streams.md"):
                if block.language != "js":
                    reader.type(block)
        finally:
            for process in psutil.process_iter(["cmdline"]):
                if (process.info["cmdline"] or [])[-3:] == ["serve", "--port", port]:
                    process.kill()


CACHED = """
CREATE TABLE customers (id INT PRIMARY KEY); CREATE TABLE rates (id INT PRIMARY KEY);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id INT NOT NULL, state VARCHAR(10) NOT NULL);
INSERT INTO orders VALUES (1, 7, 'new'), (2, 7, 'new');
"""


@pytest.mark.redis
def test_caches(tmp_path: Path) -> None:
    with start_server(tmp_path / "server") as server, start_redis(tmp_path / "redis") as cache:
        server.run_sql("CREATE DATABASE shop")
        server.run_sql(CACHED, "shop")
        placeholders = {"cache.example:6379": f"127.0.0.1:{cache.port}"}
        reader = Reader(tmp_path, server, placeholders, variables())
        (tmp_path / "strata.toml").write_text(
            'lake = "lake"\nstore = "sqlite:///store.db"\n[sources.shop]\nconnection = "mysql_shop"\n'
        )
        reader.run(f"export STRATA_SETTINGS=strata.toml AIRFLOW_CONN_MYSQL_SHOP=mysql://root@127.0.0.1:{server.port}/")
        reader.run("strata snapshot && strata land && strata track")
        try:
            for block in blocks("docs/caches.md"):
                reader.type(block)
        finally:
            for process in psutil.process_iter(["cmdline", "cwd"]):
                if process.info["cwd"] == str(tmp_path) and "follow" in (process.info["cmdline"] or []):
                    process.kill()
        assert reader.names["cache"].counts.filled


ORDERS = """
CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, status ENUM('new', 'paid', 'sent') NOT NULL, note VARCHAR(200));
INSERT INTO orders VALUES (1, 'new', NULL), (2, 'paid', NULL), (3, 'sent', 'gift');
"""


def test_an_update_without_where_is_undone(tmp_path: Path) -> None:
    with start_server(tmp_path / "server") as server:
        server.run_sql(f"RESET BINARY LOGS AND GTIDS; {ORDERS}")
        uuid = server.run_sql("SELECT @@server_uuid").split()[-1]
        client = f"{server.program('mysql')} --no-defaults -h 127.0.0.1 -P {server.port} -u root"
        accident = f"{uuid}:4"
        names = {"3e11fa47-71ca-11e1-9e33-c80aa9429562:23": accident, "mysql -h db.example -u root": client}
        reader = Reader(tmp_path, server, names, variables())
        (tmp_path / "strata.toml").write_text(
            'lake = "lake"\nstore = "sqlite:///store.db"\n[sources.shop]\nconnection = "mysql_shop"\n'
        )
        reader.run(f"export STRATA_SETTINGS=strata.toml AIRFLOW_CONN_MYSQL_SHOP=mysql://root@127.0.0.1:{server.port}/")
        for block in blocks("docs/undo.md"):
            reader.type(block)
        rows = server.run_sql("SELECT * FROM shop.orders ORDER BY id").splitlines()[1:]
        assert rows == ["1\tnew\tNULL", "2\tpaid\tcall first", "3\tsent\tgift"]


@pytest.mark.parametrize("page", ["README.md", "docs/features.md"])
def test_files_alone(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, page: str) -> None:
    """The example of the README, on a server whose first file holds it."""
    with start_server(tmp_path_factory.mktemp("first")) as server:
        server.run_sql("RESET BINARY LOGS AND GTIDS")
        reader = Reader(tmp_path, server, {}, variables())
        for block in blocks("README.md"):
            if block.language == "sql":
                reader.type(block)
        server.run_sql("FLUSH BINARY LOGS")
        shutil.copy(server.binlogs()[0], tmp_path)
        for block in blocks(page):
            if block.language != "sql":
                reader.type(block)
