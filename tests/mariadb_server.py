"""A real MariaDB server for tests, started as `mysql_server.py` starts MySQL.
Not here: the fixture that shares one (`conftest.py`)."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest

from scripts import mariadb
from scripts.ports import free_port
from scripts.state import REPOSITORY
from tests.mysql_server import TEMPLATES, MysqlServer, is_up, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIXES = {"11.8": mariadb.NEWEST, "10.11": REPOSITORY / ".strata" / "mariadb-10.11"}
VERSIONS_OF_LONG_TESTS = ("11.8", pytest.param("10.11", marks=pytest.mark.soak))
"""The versions as a parameter of tests that take long."""
"""Where `make setup` puts the servers of each version."""


@dataclass
class MariadbServer(MysqlServer):
    """A running server; root has no password and connects over TCP from this machine."""

    version: str = "11.8"
    executed_sql: ClassVar[str] = "SELECT @@GLOBAL.gtid_binlog_pos"
    reset_sql: ClassVar[str] = "RESET MASTER"

    def start_again(self) -> None:
        """Starts the server after `stop` or `kill`, at its port and with its options."""
        self.process = launch_mariadb(self.folder, self.version, *self.options, port=self.port).process

    def program(self, name: str) -> str:
        """Path of a program that fits this server, by the name that MySQL gives it."""
        return str(PREFIXES[self.version] / "bin" / mariadb.PROGRAMS[name])


def _make_data(prefix: Path, data: Path) -> None:
    """A data directory with the accounts that a new server has, unless there is one already."""
    if data.exists():
        return
    made_by = (prefix / "usr" / "sbin" / "mariadbd").stat()
    template = TEMPLATES / f"mariadb-{made_by.st_size}-{made_by.st_mtime_ns}"
    template.mkdir(parents=True, exist_ok=True)
    with (template / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        mariadb.initialize(prefix, template / "data")
    making = data.with_name("data.making")
    shutil.copytree(template / "data", making)
    making.rename(data)


def launch_mariadb(folder: Path, version: str, *options: str, port: int | None = None) -> MariadbServer:
    """Initialises (once) and starts a server in `folder`; `options` come after the defaults and override them.

    Raises:
        RuntimeError: It did not start, with its log.
    """
    prefix, data = PREFIXES[version], folder / "data"
    folder.mkdir(parents=True, exist_ok=True)
    _make_data(prefix, data)
    command = [
        *mariadb.server_command(prefix, data),
        "--skip-name-resolve",
        f"--pid-file={folder}/pid",
        f"--tmpdir={folder}",  # a server that starts deletes the temporary tables there, whoever has made them
        f"--log-error={folder}/error.log",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=32M",
        "--innodb-flush-log-at-trx-commit=0",
        *options,
    ]
    for _ in range(1 if port else 5):
        chosen = port or free_port()
        process = subprocess.Popen([*command, f"--port={chosen}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = MariadbServer(folder, chosen, process, options, version=version)
        if is_up(server):
            return server
        server.kill()
    raise RuntimeError(f"mariadbd did not start:\n{(folder / 'error.log').read_text(errors='replace')[-3000:]}")


@contextmanager
def start_mariadb(folder: Path, version: str, *options: str) -> Iterator[MariadbServer]:
    """A server for the time of a `with` block, whose data go with it; skips the test if it is not installed."""
    if not PREFIXES[version].exists():
        pytest.skip("without MariaDB: `make setup` could not fetch it")
    server = launch_mariadb(folder, version, *options)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder / "data")


FAMILIES = ("mysql", *(f"mariadb-{version}" for version in PREFIXES))
"""Parameters of fixtures whose tests hold for a server of any family."""


@contextmanager
def start_family(folder: Path, family: str, *options: str) -> Iterator[MysqlServer]:
    """A server of one of `FAMILIES` for the time of a `with` block; skips the test if it is not installed."""
    vendor, _, version = family.partition("-")
    if vendor == "mysql":
        with start_server(folder, *options) as server:
            yield server
        return
    with start_mariadb(folder, version, *options) as server:
        yield server
