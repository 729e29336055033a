"""A real Redis (or Valkey) server for tests: started in a folder, stopped and forgotten afterwards.
Not here: the fixture that shares one (`cache/conftest.py`)."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import redis

from scripts.ports import free_port
from scripts.state import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STATE = REPOSITORY / ".strata"
KINDS = ("redis", "valkey")
START_SECONDS = 30


@dataclass
class RedisServer:
    """A running server, on this machine only."""

    port: int
    process: subprocess.Popen[bytes]
    password: str = ""
    authority: Path | None = None
    """File with the certificate of the authority that its own is of; None without TLS."""

    @property
    def url(self) -> str:
        """As caches are given it."""
        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        place = f"{secret}127.0.0.1:{self.port}/0"
        return f"redis://{place}" if self.authority is None else f"rediss://{place}?ssl_ca_certs={self.authority}"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def program(kind: str) -> str:
    """Path of the server of a kind: of the private prefix, else of PATH; without Valkey, a test of it is skipped.

    Raises:
        FileNotFoundError: Neither has Redis.
    """
    private = STATE / kind / "bin" / f"{kind}-server"
    found = str(private) if private.exists() else shutil.which(f"{kind}-server")
    if found is None and kind != "redis":
        pytest.skip(f"no {kind}-server: Debian has it in sid alone")
    if found is None:
        raise FileNotFoundError(f"{private}: run `scripts/setup.sh tests`")
    return found


def launch(
    folder: Path,
    *options: str,
    password: str = "",
    port: int | None = None,
    kind: str = "redis",
    certificates: Path | None = None,
) -> RedisServer:
    """Starts one that keeps its files in a folder and saves nothing by itself; with a folder of certificates (`ca.pem`,
    `server.pem`, `server.key`) it speaks TLS only."""
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(1 if port else 5):
        found = port or free_port()
        command = [program(kind), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        if certificates is None:
            command += ["--port", str(found)]
        else:
            command += ["--port", "0", "--tls-port", str(found), "--tls-auth-clients", "no"]
            files = {"cert": "server.pem", "key": "server.key", "ca-cert": "ca.pem"}
            for what, name in files.items():
                command += [f"--tls-{what}-file", str(certificates / name)]
        command += ["--repl-diskless-sync-delay", "0", *(["--requirepass", password] if password else []), *options]
        with (folder / "log").open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        server = RedisServer(found, process, password, certificates and certificates / "ca.pem")
        deadline = time.monotonic() + START_SECONDS
        while server.process.poll() is None and time.monotonic() < deadline:
            try:
                with server.client() as client:
                    client.ping()
            except redis.exceptions.ConnectionError:
                time.sleep(0.02)
            else:
                return server
        server.kill()
    raise RuntimeError((folder / "log").read_text(errors="replace")[-3000:])


@contextmanager
def start_redis(
    folder: Path, *options: str, password: str = "", kind: str = "redis", certificates: Path | None = None
) -> Iterator[RedisServer]:
    """One for the time of a `with` block."""
    server = launch(folder, *options, password=password, kind=kind, certificates=certificates)
    try:
        yield server
    finally:
        server.kill()
