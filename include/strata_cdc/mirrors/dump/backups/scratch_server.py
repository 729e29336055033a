"""A mysqld of Strata's own, in a temporary folder, that loads a backup: only MySQL reads backups as MySQL does.
Not here: what is loaded (`mysqldump.py`, `shell_dump.py`), reading rows from it (`take_in.py`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from strata_cdc.binlog.protocol.connection import ServerAddress, open_connection
from strata_cdc.errors import BadData, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.binlog.protocol.client import Client

_START_SECONDS: Final = 120
_STOP_SECONDS: Final = 30
_LOG_CHARACTERS: Final = 1500
# It can be reached only over a socket in a folder of this user; its content is deleted with it.
_OPTIONS: Final = (
    "--skip-networking",
    "--skip-log-bin",
    "--secure-file-priv=",
    "--default-time-zone=+00:00",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--max-allowed-packet=1G",
    "--loose-mysqlx=OFF",
    "--performance-schema=OFF",
)


class ScratchServer:
    """A running server."""

    def __init__(self, folder: Path, client: str) -> None:
        """Its folder, and MySQL's client program."""
        self.folder, self._client = folder, client

    def connect(self) -> Client:
        """A connection in autocommit mode."""
        address, socket = ServerAddress("localhost"), str(self.folder / "s")
        return cast("Client", open_connection(address, unix_socket=socket, autocommit=True))

    def load(self, lines: Iterable[bytes]) -> None:
        """Runs a script.

        Raises:
            BadData: A statement fails.
        """
        command = [self._client, "--no-defaults", f"--socket={self.folder / 's'}", "--user=root", "--batch"]
        # Without it, the client turns two bytes into one newline, and ends a statement at a zero byte.
        command += ["--default-character-set=utf8mb4", "--binary-mode", "--max-allowed-packet=1G"]
        with (self.folder / "load.log").open("w+b") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)  # noqa: S603  MySQL's client
            try:
                _write_all(process, lines)
            except BaseException:
                process.kill()
                raise
            finally:
                status = process.wait()
            if status:
                log.seek(0)
                message = log.read().decode(errors="replace").strip()[-_LOG_CHARACTERS:]
                raise BadData(
                    f"the backup cannot be loaded: {message}",
                    remedy="The server that loads the dump should have the version of the dumped server, and enough "
                    "space in TMPDIR for the whole dump.",
                )


def _write_all(process: subprocess.Popen[bytes], lines: Iterable[bytes]) -> None:
    try:
        with process.stdin as stdin:  # type: ignore[union-attr]  # it is a pipe
            for line in lines:
                stdin.write(line)
    except BrokenPipeError:
        # A statement has failed: the client reports which.
        return


@contextmanager
def scratch_server(program: str | None = None) -> Iterator[ScratchServer]:
    """Makes and starts a server, and deletes it at the end of the `with` block.

    Args:
        program: Path of a mysqld; by default the one on PATH.

    Raises:
        Usage: There is no mysqld here.
        BadData: It does not start.
    """
    server, client = _programs(program)
    folder = Path(tempfile.mkdtemp(prefix="strata-"))
    try:
        data = folder / "data"
        user = ["--user=root"] if os.getuid() == 0 else []
        command = [server, "--no-defaults", *user, f"--datadir={data}"]
        made = subprocess.run([*command, "--initialize-insecure"], capture_output=True, text=True, check=False)  # noqa: S603  mysqld
        if made.returncode:
            raise BadData(f"{server} makes no data directory: {made.stderr[-_LOG_CHARACTERS:]}")
        log = f"--log-error={folder / 'log'}"
        arguments = [f"--socket={folder / 's'}", f"--pid-file={folder / 'pid'}", log]
        process = subprocess.Popen([*command, *_OPTIONS, *arguments], stdout=subprocess.DEVNULL)  # noqa: S603  mysqld
        try:
            scratch = ScratchServer(folder, client)
            _wait(scratch, process)
            yield scratch
        finally:
            _stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(program: str | None) -> tuple[str, str]:
    server = shutil.which(program or "mysqld")
    beside = None if server is None else shutil.which("mysql", path=str(Path(server).parent))
    client = beside or shutil.which("mysql")
    if server is None or client is None:
        missing = "mysqld" if server is None else "mysql"
        raise Usage(
            f"a backup is read by loading it into a mysqld of its own, and there is no {missing} here",
            remedy="Install MySQL's server programs, which need not run, or name one: --mysqld /usr/sbin/mysqld. Or "
            "leave the backup out: `strata dump` reads the rows from the source.",
        )
    return server, client


def _wait(server: ScratchServer, process: subprocess.Popen[bytes]) -> None:
    """Waits until the server has written its process id: by then it listens."""
    until = time.monotonic() + _START_SECONDS
    while not (server.folder / "pid").exists():
        if process.poll() is not None or time.monotonic() > until:
            log = server.folder / "log"
            text = log.read_text(errors="replace")[-_LOG_CHARACTERS:] if log.exists() else ""
            raise BadData(f"the mysqld for the backup does not start: {text}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(_STOP_SECONDS)
