"""`strata serve` as a process: it says where to go, lets nobody in without the token, and refuses bad input."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from scripts.ports import free_port
from tests.schema.streams import Stream, track
from tests.serve.conftest import TOKEN

STRATA = str(Path(sys.executable).with_name("strata"))


@pytest.fixture
def environment(store):
    track(store, Stream(), "CREATE DATABASE d", "CREATE TABLE t (a INT)")
    settings = Path(store.engine.url.database).with_name("settings.toml")
    return os.environ | {"STRATA_SETTINGS": str(settings), "AIRFLOW_CONN_C": "mysql://u:hidden@127.0.0.1:1/"}


def first_line(environment, *options):
    """Starts the command; returns it with the first line that it prints."""
    process = subprocess.Popen(
        [STRATA, "serve", "--port", str(free_port()), *options],
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


def test_the_link_that_it_prints_opens_the_page(environment):
    process, said = first_line(environment)
    with process:
        try:
            with httpx.Client(
                follow_redirects=True, trust_env=False, timeout=60, transport=httpx.HTTPTransport(retries=8)
            ) as client:
                address = re.match(r"http://127\.0\.0\.1:\d+", said)[0]
                assert client.get(f"{address}/api/sources").status_code == 401
                assert "Schema history" in client.get(said).text
                head = client.head(f"{address}/")
                assert (head.status_code, head.content) == (200, b"")
                assert client.get(f"{address}/api/sources").json() == ["s", "untouched"]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) in {0, 130}


def test_a_token_of_ones_own_is_not_printed(environment):
    process, said = first_line(environment | {"STRATA_SERVE_TOKEN": TOKEN})
    with process:
        process.terminate()
    assert TOKEN not in said
    assert "$STRATA_SERVE_TOKEN" in said


@pytest.mark.parametrize(
    ("host", "said"),
    [("127.0.0.1", "in use"), ("nowhere.invalid", "not known"), ("192.0.2.1", "assign")],
)
def test_where_nothing_can_listen_is_refused_without_a_link(environment, host, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [STRATA, "serve", "--host", host, "--port", port]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"nothing can listen on {host}, port {port}" in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"STRATA_SERVE_TOKEN": "short"}, "shorter than 16"), ({"STRATA_SETTINGS": "/nowhere.toml"}, "/nowhere.toml")],
)
def test_bad_input_is_refused_before_anything_listens(environment, variables, said):
    done = subprocess.run([STRATA, "serve"], env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
