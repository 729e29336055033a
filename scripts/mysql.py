"""MySQL's programs, and the private server of either vendor: its data directory, its accounts, connections to it.
Not here: MariaDB's programs (`mariadb.py`), its processes (`processes.py`), its port and passwords (`state.py`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pymysql.converters import escape_string

from scripts import mariadb
from scripts.processes import FleetError, Program
from scripts.state import REPOSITORY, write_whole
from strata_cdc.binlog.protocol.connection import ServerAddress, open_connection
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

    from scripts.state import FleetState


def program(name: str) -> str:
    """Path of one of MySQL's programs: from the private prefix, else from PATH.

    Raises:
        FleetError: Neither has the program.
    """
    private = REPOSITORY / ".strata" / "mysql" / "bin" / name
    found = str(private) if private.exists() else shutil.which(name)
    if found is None:
        raise FleetError(f"{name} is not here: run `make setup`, or put MySQL's programs on PATH")
    return found


def _mysqld(data: Path) -> list[str]:
    return [program("mysqld"), "--no-defaults", *(["--user=root"] if os.getuid() == 0 else []), f"--datadir={data}"]


def server_command(data: Path) -> list[str]:
    """How a server is started on a data directory, reachable from this machine only; more options may follow."""
    return [
        *_mysqld(data),
        "--bind-address=127.0.0.1",
        # Below the data directory, by a relative path: a socket's whole path must not exceed 107 characters.
        "--socket=s",
        "--mysqlx=OFF",
        "--performance-schema=OFF",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
    ]


def initialize(data: Path, *options: str) -> None:
    """Makes a data directory, unless it exists; first under another name, because an incomplete one would never start.

    Raises:
        FleetError: mysqld could not.
    """
    if data.exists():
        return
    making = data.with_name("data.making")
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    command = [*_mysqld(making), "--initialize-insecure", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FleetError(f"mysql could not make its data directory\n{done.stderr[-3000:]}")
    making.rename(data)


def prepared_data() -> Path:
    """The data directory without data that set-up makes with this mysqld, of which a private server gets a copy.

    Raises:
        FleetError: There is no mysqld.
    """
    made_by = Path(program("mysqld")).stat()
    return Path(sys.prefix) / f"strata.mysqld-{made_by.st_size}-{made_by.st_mtime_ns}"


def make_data(data: Path) -> None:
    """Makes a data directory, unless it exists: a copy of what set-up made, which takes a tenth of the time.

    Raises:
        FleetError: mysqld could not.
    """
    prepared = prepared_data()
    if data.exists() or not os.access(prepared / "ibdata1", os.R_OK):
        initialize(data)
        return
    making = data.with_name("data.making")
    shutil.rmtree(making, ignore_errors=True)
    # Each server has a UUID and keys of its own: it makes them at its first start.
    shutil.copytree(prepared, making, ignore=shutil.ignore_patterns("auto.cnf", "*.pem"))
    making.rename(data)


def private_server(state: FleetState) -> tuple[Program, Path]:
    """The private server: its default binlog settings, rows and GTIDs on, loopback only.

    Returns:
        The command, and the file that makes the accounts when the server starts: to be removed after that.

    Raises:
        FleetError: There is no server, or it could not make its data directory.
    """
    folder = state.server_folder
    data = folder / "data"
    own: list[str] = []
    if state.flavour is Vendor.MARIADB:
        mariadb.initialize(mariadb.NEWEST, data)
        command, own = mariadb.server_command(mariadb.NEWEST, data), mariadb.accounts()
    else:
        make_data(data)
        command = server_command(data)
    accounts = folder / "accounts.sql"
    root = f"ALTER USER root@localhost IDENTIFIED BY '{state.secret('mysql-root')}'"
    lines = ["SET sql_log_bin = 0", *own, root, *grants(strata_url(state), host="localhost")]
    write_whole(accounts, "".join(f"{line};\n" for line in lines), mode=0o600)
    options = [
        f"--port={state.port('mysql')}",
        f"--pid-file={folder / 'pid'}",
        f"--init-file={accounts}",
        "--secure-file-priv=NULL" if state.flavour is Vendor.MYSQL else f"--secure-file-priv={folder}",
    ]
    return Program("mysql", [*command, *options], dict(os.environ)), accounts


def grants(url: str, *, host: str) -> Iterator[str]:
    """Statements that make the account that a URL of Strata's names, with exactly the grants that it needs."""
    address = ServerAddress.from_url(url)
    account = f"'{escape_string(address.user)}'@'{host}'"
    yield f"CREATE USER IF NOT EXISTS {account}"
    yield f"ALTER USER {account} IDENTIFIED BY '{escape_string(address.password)}'"
    yield f"GRANT SELECT, SHOW VIEW, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account}"
    yield f"GRANT ALL ON strata.* TO {account}"


def strata_url(state: FleetState) -> str:
    """The private server as the product itself uses it, with the few grants it needs."""
    return f"mysql://strata:{state.secret('mysql-strata')}@127.0.0.1:{state.port('mysql')}/"


def root_url(state: FleetState) -> str:
    """The private server as its owner uses it, who may do everything."""
    return f"mysql://root:{state.secret('mysql-root')}@127.0.0.1:{state.port('mysql')}/"


def connect(url: str, database: str | None = None) -> pymysql.Connection:
    """A connection to a server that a URL names, with the URL's options, in autocommit mode."""
    return open_connection(replace(ServerAddress.from_url(url), database=database), autocommit=True)


def run_client(state: FleetState, arguments: list[str]) -> None:
    """Becomes the client of the private server."""
    client = program("mysql") if state.flavour is Vendor.MYSQL else str(mariadb.NEWEST / "bin" / "mariadb")
    options = ["--no-defaults", "--host=127.0.0.1", f"--port={state.port('mysql')}", "--user=root"]
    # The password goes through the environment: it must not stand in the list of processes.
    environment = {**os.environ, "MYSQL_PWD": state.secret("mysql-root")}
    Program("client", [client, *options, *arguments], environment).become()
