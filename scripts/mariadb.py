"""MariaDB's private server: its data directory and its command.
Not here: MySQL's, accounts and connections (`mysql.py`), fetching the packages (`install_mariadb.sh`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from scripts.processes import FleetError
from scripts.state import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = REPOSITORY / ".strata" / "mariadb"
"""The prefix of the newest version."""
PROGRAMS = {"mysql": "mariadb", "mysqld": "mariadbd", "mysqlbinlog": "mariadb-binlog", "mysqldump": "mariadb-dump"}
"""Its programs by the names that MySQL gives them."""


def server_command(prefix: Path, data: Path) -> list[str]:
    """How a server is started on a data directory, reachable from this machine only; more options may follow.

    Raises:
        FleetError: The prefix has no server.
    """
    return [
        *_mariadbd(prefix, data),
        "--bind-address=127.0.0.1",
        # Below the data directory, by a relative path: a socket's whole path must not exceed 107 characters.
        "--socket=s",
        "--log-bin=binlog",
        # The default is MIXED, which has some changes as statements alone.
        "--binlog-format=ROW",
        "--server-id=1",
    ]


def initialize(prefix: Path, data: Path) -> None:
    """Makes a data directory with the accounts that a new server has, unless it exists; first under another name,
    because an incomplete one would never start.

    Raises:
        FleetError: The prefix has no server, or the server could not.
    """
    if data.exists():
        return
    making = data.with_name("data.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    command = [*_mariadbd(prefix, making), "--bootstrap", "--skip-log-bin"]
    command += ["--innodb-log-file-size=32M", "--max-allowed-packet=8M"]
    [share] = (prefix / "usr" / "share").glob("*/charsets")
    tables = [next(share.parent.glob(f"*system_tables{which}.sql")).read_text() for which in ("", "_data")]
    # Bootstrap reads a statement from each line.
    script = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n" + "".join(tables)
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FleetError(f"mariadb could not make its data directory\n{done.stderr[-3000:]}")
    making.rename(data)


def accounts() -> list[str]:
    """Statements that leave root@localhost alone of the accounts that a new server has."""
    return [
        "DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost')",
        "FLUSH PRIVILEGES",
    ]


def _mariadbd(prefix: Path, data: Path) -> list[str]:
    program = prefix / "bin" / "mariadbd"
    if not program.exists():
        raise FleetError(f"{program} is not here: run `make setup FLAVOUR=mariadb`")
    user = ["--user=root"] if os.getuid() == 0 else []
    return [str(program), "--no-defaults", *user, f"--datadir={data}", "--innodb-use-native-aio=0"]
