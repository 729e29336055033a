"""The service `streams` of docker-compose.yaml without Docker: its command line, its environment and its health check
as they stand there, on a real MySQL with the account that the containers' `init` makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from scripts.mysql import grants
from scripts.ports import free_port
from scripts.state import REPOSITORY, FleetState
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
SECRETS = {"STRATA_SERVE_TOKEN": "a-token-that-is-long-enough", "STRATA_MYSQL_PASSWORD": "sesame"}
HEADERS = {"Authorization": f"Bearer {SECRETS['STRATA_SERVE_TOKEN']}"}


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    server.run_sql("; ".join(grants("mysql://strata:sesame@mysql:3306/", host="%")))
    return server


class Service:
    """What the file says of the service, in words of this machine: its folders, ports and host names."""

    def __init__(self, folder: Path, server: MysqlServer) -> None:
        self.port = free_port()
        here = {"8090": str(self.port), "mysql:3306": f"127.0.0.1:{server.port}", '"/strata': f'"{folder}'}
        text = (REPOSITORY / "docker-compose.yaml").read_text()
        found = yaml.safe_load(text)["services"]["streams"]
        self._said: dict[str, Any] = json.loads(re.sub("|".join(here), lambda at: here[at[0]], json.dumps(found)))
        given = {name: str(value) for name, value in self._said["environment"].items()}
        self.environment = {**os.environ, **{name: _filled(value) for name, value in given.items()}}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def command(self) -> list[str]:
        [tini, dashes, *command] = self._said["entrypoint"]
        assert (tini, dashes) == ("tini", "--")
        return [*command, *self._said["command"]]

    def is_healthy(self, **environment: str) -> bool:
        kind, *command = self._said["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(command, env=self.environment | environment, capture_output=True, check=False)
        return done.returncode == 0


def _filled(value: str) -> str:
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: SECRETS[found[1]], value)


@contextmanager
def running(service: Service) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(service.command(), env=service.environment, stdout=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            started.terminate()


def test_it_serves_the_streams_and_says_that_it_is_healthy(server: MysqlServer, tmp_path: Path) -> None:
    # As `init` leaves the volume.
    FleetState(tmp_path).write_settings()
    service = Service(tmp_path, server)
    assert not service.is_healthy()
    with running(service):
        wait_until(service.is_healthy, pause=0.3)
        assert not service.is_healthy(STRATA_SERVE_TOKEN="another-token-of-somebody")
        server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        url = f"http://127.0.0.1:{service.port}/api/streams/shop"
        with httpx.Client(trust_env=False, timeout=60, headers=HEADERS) as client:
            answer = client.get(url, params={"from": "beginning", "until": "now"})
            assert answer.status_code == 200, answer.text
            assert '"ddl":"CREATE TABLE shop.orders' in answer.text
            assert client.get(url, headers={"Authorization": ""}).status_code == 401
