"""A server that speaks S3, for tests of what lies on object stores.
Not here: the program (`s3_program.py`), the fixture (`conftest.py`)."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scripts.ports import free_port
from scripts.state import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = REPOSITORY / ".strata" / "s3" / "bin" / "python"
BUCKET = "lake"
START_SECONDS = 60


@contextmanager
def start_s3(log: Path) -> Iterator[dict[str, str]]:
    """The environment in which `s3://lake/` is a bucket of a server that lives as long as the `with` block.

    Raises:
        FileNotFoundError: The program is not there.
    """
    if not PROGRAM.exists():
        raise FileNotFoundError(f"{PROGRAM}: run `scripts/setup.sh tests`")
    port = free_port()
    with log.open("wb") as out:
        command = [PROGRAM, "-m", "tests.s3_program", str(port)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "MOTO_DISABLE_GLOBAL_CORS": "true"}
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _make_bucket(f"{endpoint}/{BUCKET}", process)
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "strata",
            "AWS_SECRET_ACCESS_KEY": "sesame",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        process.kill()
        process.wait()


def _make_bucket(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return
