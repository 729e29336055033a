"""Three servers for the tests of groups; each file begins with empty ones whose clocks are right."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

import pytest

from tests.mysql_server import MysqlServer, launch

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("shard_a", "shard_b", "shard_c")
_SECONDS = Struct("=q")
"""As `clock.c` has them."""


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """What sets a server's clock (`set_clock`); None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    built = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"], check=True)
    return built


def start(
    folder: Path, clock: Path | None, *options: str, port: int | None = None, ahead_seconds: int = 0
) -> MysqlServer:
    """A server whose clock can be set; one that is started again keeps the clock that it had."""
    folder.mkdir(exist_ok=True)
    if not (folder / "clock").exists():
        (folder / "clock").write_bytes(_SECONDS.pack(ahead_seconds))
    environment = {"LD_PRELOAD": str(clock), "STRATA_CLOCK": str(folder / "clock")} if clock else {}
    return launch(folder, *options, port=port, environment=environment)


def set_clock(server: MysqlServer, ahead_seconds: int) -> None:
    """Lets a server's clock be ahead from now on."""
    with (server.folder / "clock").open("r+b") as file:  # mapped by the server: never cut
        file.write(_SECONDS.pack(ahead_seconds))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, clock: Path | None) -> Iterator[dict[str, MysqlServer]]:
    folder = tmp_path_factory.mktemp("shards")
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda at: start(folder / NAMES[at], clock, f"--server-id={at + 1}"), range(len(NAMES)))
        servers = dict(zip(NAMES, found, strict=True))
    yield servers
    for server in servers.values():
        server.kill()


@pytest.fixture(scope="module")
def servers(running: dict[str, MysqlServer]) -> dict[str, MysqlServer]:
    for server in running.values():
        set_clock(server, 0)
        server.run_sql(
            "STOP REPLICA; RESET REPLICA ALL; DROP DATABASE IF EXISTS d; DROP DATABASE IF EXISTS d1;"
            "DROP DATABASE IF EXISTS d2; DROP DATABASE IF EXISTS _vt; RESET BINARY LOGS AND GTIDS;"
        )
    return running
