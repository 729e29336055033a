"""A real MySQL server for tests: started in a folder, stopped and forgotten afterwards.
Not here: the fixture that shares one (`conftest.py`)."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pymysql

from scripts.mysql import initialize, program, server_command
from scripts.ports import free_port
from scripts.state import REPOSITORY
from tests.sql_scripts import is_of_the_client, run_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_SECONDS = 60
TEMPLATES = REPOSITORY / ".strata" / "tests" / "data"
"""Data directories as mysqld makes them, to be copied: making one takes 1.5 s of CPU, a copy a tenth of that."""


@dataclass
class MysqlServer:
    """A running server; root has no password and connects over TCP from this machine."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    options: tuple[str, ...] = field(default=())
    variables: dict[str, str] = field(default_factory=dict)
    """The global ones at its start, of a server that many files share (`as_new.py`)."""
    host: str = "127.0.0.1"
    user: str = "root"
    password: str = ""

    executed_sql: ClassVar[str] = "SELECT @@GLOBAL.gtid_executed"
    """What tells which transactions its binlog has had."""
    reset_sql: ClassVar[str] = "RESET BINARY LOGS AND GTIDS"

    @property
    def binlog_dir(self) -> Path:
        """Where the binlog files lie."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The server as a URL, without a database."""
        return f"mysql://{self.user}@{self.host}:{self.port}/"

    def connect(self, database: str | None = None, **options: object) -> pymysql.Connection:
        """A new connection in autocommit mode."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            autocommit=True,
            charset="utf8mb4",
            ssl_disabled=True,  # preparing TLS takes 40 ms, and nothing leaves this machine
            **options,
        )

    def run_sql(self, text: str, database: str | None = None) -> str:
        """Runs a script in a session of its own and returns what the `mysql` client prints.

        Raises:
            AssertionError: A statement failed.
        """
        if not is_of_the_client(text):
            return run_script(text, host=self.host, port=self.port, user="root", database=database)
        return self.run_in_client(text, database)

    def run_in_client(self, text: str, database: str | None = None) -> str:
        """The same by the `mysql` client, which takes TLS where the server has it.

        Raises:
            AssertionError: A statement failed.
        """
        command = [self.program("mysql"), "--no-defaults", f"--host={self.host}", f"--port={self.port}", "--user=root"]
        command += ["--default-character-set=utf8mb4", "--batch", *([database] if database else [])]
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace")

    def binlogs(self) -> list[Path]:
        """The binlog files, oldest first."""
        return sorted(path for path in self.binlog_dir.glob("binlog.*") if path.suffix[1:].isdigit())

    def program(self, name: str) -> str:
        """Path of a MySQL program that fits this server."""
        return program(name)

    def has_program(self, name: str) -> bool:
        """Whether it was installed with the server."""
        command = [self.program(name), "--no-defaults", "--version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def stop(self, *, seconds: float = 30) -> None:
        """Shuts the server down; kills it if it takes too long."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def start_again(self) -> None:
        """Starts the server after `stop` or `kill`, at its port and with its options."""
        self.process = launch(self.folder, *self.options, port=self.port).process

    def kill(self) -> None:
        """Ends the server as a crash does."""
        self.process.kill()
        self.process.wait()


def _make_data(data: Path, *options: str) -> None:
    """A data directory with nothing in it, unless there is one already; `options` are those that mysqld takes only as
    it makes one."""
    if data.exists():
        return
    made_by = Path(program("mysqld")).stat()
    template = TEMPLATES / "".join((f"{made_by.st_size}-{made_by.st_mtime_ns}", *options))
    template.mkdir(parents=True, exist_ok=True)
    with (template / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        initialize(template / "data", "--innodb-redo-log-capacity=32M", *options)
    making = data.with_name("data.making")
    shutil.copytree(template / "data", making)
    (making / "auto.cnf").unlink()  # has the server's UUID; mysqld writes a new one
    making.rename(data)


def launch(
    folder: Path, *options: str, port: int | None = None, environment: Mapping[str, str] | None = None
) -> MysqlServer:
    """Initialises (once) and starts a server in `folder`; `options` come after the defaults and override them.
    `environment` comes on top of this process's own.

    Raises:
        RuntimeError: It did not start, with its log.
    """
    data = folder / "data"
    _make_data(data, *(option for option in options if "lower-case-table-names" in option))
    command = [
        *server_command(data),
        f"--pid-file={folder}/pid",
        f"--log-error={folder}/error.log",
        "--secure-file-priv=",
        "--innodb-buffer-pool-size=64M",
        "--innodb-buffer-pool-load-at-startup=OFF",
        "--innodb-redo-log-capacity=32M",
        "--innodb-flush-log-at-trx-commit=0",
        # The machine does not fail while tests run; a killed server loses nothing that it has written.
        "--innodb-flush-method=nosync",
        "--sync-binlog=0",
        "--server-id=1",
        # A reader that has closed its connection is one for up to five seconds more, until a heartbeat finds nobody:
        # tests open forty readers a second.
        "--max-connections=500",
        *options,
    ]
    fault = ""
    for _ in range(1 if port else 5):
        found = port or free_port()
        process = subprocess.Popen(
            [*command, f"--port={found}"], stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
        )
        server = MysqlServer(folder, found, process, options)
        if is_up(server):
            return server
        process.kill()
        process.wait()
        fault = (folder / "error.log").read_text(errors="replace")[-3000:]
        # Somebody else may have taken the port since nobody had it.
        if "Bind on TCP/IP port: Address already in use" not in fault:
            break
    raise RuntimeError(f"mysqld did not start:\n{fault}")


def is_up(server: MysqlServer) -> bool:
    """Waits until it can be connected to; False if it ends, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while server.process.poll() is None and time.monotonic() < deadline:
        if _answers(server):
            return True
        time.sleep(0.02)
    return False


def _answers(server: MysqlServer) -> bool:
    """Whether it answers, and nobody else: another server, or one of a test that speaks nonsense on purpose, may have
    the port while this one has not found out yet."""
    try:
        with server.connect(read_timeout=5) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@datadir")
            found = cursor.fetchall()
    except (pymysql.err.MySQLError, OSError, LookupError, ValueError, struct.error):
        return False
    return [Path(str(folder)).resolve() for folder, *_ in found] == [server.binlog_dir.resolve()]


@contextmanager
def start_server(folder: Path, *options: str) -> Iterator[MysqlServer]:
    """A server for the time of a `with` block. Its data, 100 MB and more, go with it."""
    server = launch(folder, *options)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder / "data")
