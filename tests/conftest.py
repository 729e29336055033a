"""Fixtures that all rooms share."""

from __future__ import annotations

import gc
import os
import tempfile
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests import properties
from tests.as_new import global_variables, make_as_new
from tests.mariadb_server import MariadbServer, start_mariadb
from tests.mysql_server import MysqlServer, start_server
from tests.s3_server import BUCKET, start_s3
from tests.swift_server import start_swift

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

properties.load_profile()

# `make test` starts the tests: a `make` that one of them runs would speak as that one's part, of folders it enters.
# Columns and lines: readline, where somebody imports it, sets them for all processes that are started behind it.
for _name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "COLUMNS", "LINES"):
    os.environ.pop(_name, None)
    os.unsetenv(_name)


# Installed for `make test` only; and what `make check` leaves out.
SERVERS = {"mysql_server", "mariadb_server", "redis_server", "s3_environment", "swift_environment"}
LEFT_OUT = {"mysql", "redis", "spark", "airflow", "browser", "slow"}
LONGEST_FIRST = ("airflow", "spark", "slow", "mysql", "redis", "browser")
"""Marks of files of tests in the order in which the files run; files without any come last."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Does not search for cycles among what stays: that is a third of the time in which tests are collected, and is
    done again in each full search while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses tests of a server that `make check` would run; gives properties more examples where new are drawn."""
    for item in items:
        used = SERVERS.intersection(getattr(item, "fixturenames", ()))
        if used and LEFT_OUT.isdisjoint(mark.name for mark in item.iter_markers()):
            raise pytest.UsageError(
                f"{item.nodeid}: uses {', '.join(sorted(used))}, and has no mark of {sorted(LEFT_OUT)}"
            )
    _sort_by_length(items)
    if properties.TIMES:
        properties.multiply({item.function for item in items if isinstance(item, pytest.Function)})


def _sort_by_length(items: list[pytest.Item]) -> None:
    """A process takes the next file when it has none left: a file of minutes that begins last is waited for by a
    machine with nothing else to do."""
    ranks: dict[Path, int] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        rank = next((at for at, name in enumerate(LONGEST_FIRST) if name in marks), len(LONGEST_FIRST))
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])


@pytest.fixture(scope="session")
def mysql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """One server for the whole run; a test makes databases of its own in it."""
    with start_server(tmp_path_factory.mktemp("mysql")) as server:
        server.variables = global_variables(server)
        yield server


@pytest.fixture(scope="session")
def mariadb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """A MariaDB of the newest version for the whole run, as `mysql_server`."""
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), "11.8") as server:
        yield server


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """A server that is as new, for one file of tests, whose binlog is theirs alone: the run's one, unless the file's
    `SERVER_OPTIONS` say what options its own has; without any it has one that it may stop."""
    options = getattr(request.module, "SERVER_OPTIONS", None)
    if options is None:
        shared = request.getfixturevalue("mysql_server")
        make_as_new(shared)
        yield shared
        # Tests with databases of their own may read its binlog, too.
        make_as_new(shared)
        return
    with start_server(tmp_path_factory.mktemp("mysql"), *options) as running:
        yield running


@pytest.fixture(scope="session")
def s3_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One S3-speaking server for the whole run; with `STRATA_S3=swift` it is OpenStack's."""
    folder = tmp_path_factory.mktemp("s3")
    is_swift = os.environ.get("STRATA_S3") == "swift"
    with start_swift(folder) if is_swift else start_s3(folder / "log") as environment:
        yield environment


@pytest.fixture(scope="session")
def swift_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An S3-speaking server of another kind."""
    with start_swift(tmp_path_factory.mktemp("swift")) as environment:
        yield environment


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty lake, on this machine and on an object store; processes that the test starts find it, too."""
    if request.param == "disk":
        return str(tmp_path / "lake")
    for name, value in request.getfixturevalue("s3_environment").items():
        monkeypatch.setenv(name, value)
    # Segments are written on this machine first.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return f"s3://{BUCKET}/{uuid4().hex}"
