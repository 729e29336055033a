"""A server that speaks S3, for tests of what lies on object stores.
Not here: the fixture (`conftest.py`)."""

from __future__ import annotations

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
SERVE = """
import functools, logging, sys
from moto.core import serialize
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple
logging.getLogger("werkzeug").setLevel(logging.ERROR)
serialize.parse_to_aware_datetime = functools.lru_cache(100_000)(serialize.parse_to_aware_datetime)
apps = {name: create_backend_app(name) for name in ("s3", "moto_api")}
def serve(environ, start):
    return apps["moto_api" if environ["PATH_INFO"].startswith("/moto-api/") else "s3"](environ, start)
run_simple("127.0.0.1", int(sys.argv[1]), serve, threaded=True, request_handler=MotoRequestHandler)
"""
"""`moto_server` without the search, for each request, for which of two hundred services it is: half of the work."""
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
        process = subprocess.Popen([PROGRAM, "-c", SERVE, str(port)], stdout=out, stderr=out)
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
