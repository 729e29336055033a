"""A real MySQL server for tests: started in a folder, stopped and forgotten afterwards.
Not here: the fixture that shares one (`conftest.py`)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parent.parent
PREFIX = REPOSITORY / ".strata" / "mysql"
START_SECONDS = 60


def program(name: str) -> str:
    """Path of a MySQL program: of the private prefix, else of PATH.

    Raises:
        FileNotFoundError: Neither has it.
    """
    private = PREFIX / "bin" / name
    found = str(private) if private.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name}: run `make setup`, or put MySQL's programs on PATH")
    return found


@dataclass
class MysqlServer:
    """A running server; root has no password and connects over TCP from this machine."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    options: tuple[str, ...] = field(default=())
    host: str = "127.0.0.1"
    user: str = "root"
    password: str = ""

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
        """Runs a script through the `mysql` client and returns what it prints.

        Raises:
            AssertionError: A statement failed.
        """
        command = [program("mysql"), "--no-defaults", f"--host={self.host}", f"--port={self.port}", "--user=root"]
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

    def stop(self, *, seconds: float = 30) -> None:
        """Shuts the server down; kills it if it takes too long."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    """A TCP port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launch(folder: Path, *options: str, port: int | None = None) -> MysqlServer:
    """Initialises (once) and starts a server in `folder`; `options` come after the defaults and override them.

    Raises:
        RuntimeError: It did not start, with its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    base = [program("mysqld"), "--no-defaults", f"--datadir={data}", *(["--user=root"] if os.getuid() == 0 else [])]
    if not data.exists():
        subprocess.run(
            [*base, "--initialize-insecure", *(o for o in options if "lower-case-table-names" in o)],
            check=True,
            capture_output=True,
        )
    command = [
        *base,
        "--bind-address=127.0.0.1",
        "--socket=s",
        f"--pid-file={folder}/pid",
        f"--log-error={folder}/error.log",
        "--mysqlx=OFF",
        "--secure-file-priv=",
        "--performance-schema=OFF",
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--sync-binlog=0",
        "--server-id=1",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        *options,
    ]
    fault = ""
    for _ in range(1 if port else 5):
        found = port or free_port()
        process = subprocess.Popen([*command, f"--port={found}"], stdout=subprocess.DEVNULL)
        server = MysqlServer(folder, found, process, options)
        if _is_up(server):
            return server
        process.kill()
        process.wait()
        fault = (folder / "error.log").read_text(errors="replace")[-3000:]
        # Somebody else may have taken the port since nobody had it.
        if "Bind on TCP/IP port: Address already in use" not in fault:
            break
    raise RuntimeError(f"mysqld did not start:\n{fault}")


def _is_up(server: MysqlServer) -> bool:
    """Waits until it can be connected to; False if it ends, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            connection = server.connect(read_timeout=5)
        except pymysql.err.OperationalError:
            time.sleep(0.1)
            continue
        with connection, connection.cursor() as cursor:
            # Another server may have the port while this one has not found out yet.
            cursor.execute("SELECT @@datadir")
            [[datadir]] = cursor.fetchall()
            if Path(datadir).resolve() == server.binlog_dir.resolve():
                return True
        time.sleep(0.1)
    return False


@contextmanager
def start_server(folder: Path, *options: str) -> Iterator[MysqlServer]:
    """A server for the time of a `with` block."""
    server = launch(folder, *options)
    try:
        yield server
    finally:
        server.stop()
