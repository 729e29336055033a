"""The wheel, away from the repository: every file of the package is in it, and its commands work with what it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from scripts.ports import free_port
from tests.redis_server import start_redis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.redis]

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = Path("include/strata_cdc")
LINKED = PACKAGE / "binlog" / "kernels" / "__pycache__"
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"
COMMAND = """
import sys
from strata_cdc.cli import main
assert main.__file__.startswith({site!r}), main.__file__
try:
    main.main()
finally:
    loaded = {{"numba", "airflow", "pyspark"}} & sys.modules.keys()
    assert not loaded, loaded
"""
TOKEN = "correct-horse-battery-staple"
SHAPES = '[shapes.item]\n"shop.items" = ["id"]\n'


def tracked() -> list[Path]:
    """The files of the package that git knows."""
    command = ["git", "ls-files", "-z", "--", str(PACKAGE), "README.md", "LICENSE", "pyproject.toml", "setup.py"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [Path(name) for name in done.stdout.split("\0") if name]


class Installed:
    """The wheel's files in a folder of their own, and a user's settings in another."""

    def __init__(self, folder: Path, url: str) -> None:
        self.site, self.home = folder / "site", folder / "home"
        self.home.mkdir()
        (self.home / "strata.toml").write_text(
            f'lake = "lake"\nstore = "sqlite:///{self.home}/s.db"\n[sources.shop]\nconnection = "x"\n'
            'tables = ["shop.*"]\nmirrors = ["shop.*"]\n'
        )
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("STRATA", "AIRFLOW"))},
            "PYTHONPATH": str(self.site),
            "STRATA_SETTINGS": str(self.home / "strata.toml"),
            "AIRFLOW_CONN_X": url,
        }

    def start(self, words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND.format(site=str(self.site)), *words],
            cwd=self.home,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, **variables: str) -> str:
        said, _ = (process := self.start(words, **variables)).communicate(timeout=120)
        assert process.returncode == 0, said
        return said


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of what git knows, and of the kernels that set-up has linked."""
    folder = tmp_path_factory.mktemp("tree")
    linked = [path.relative_to(REPOSITORY) for path in (REPOSITORY / LINKED).glob("linked_kernels-*")]
    for path in [*tracked(), *linked]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / path, folder / path)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_every_file_of_the_package_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {str(path.relative_to("include")) for path in tracked() if path.is_relative_to(PACKAGE)}
    assert wanted - held == set()
    linked = list((REPOSITORY / LINKED).glob("linked_kernels-*"))
    assert {f"{LINKED.relative_to('include')}/{path.name}" for path in linked} <= held
    assert linked, "set-up has linked no kernels"
    assert "-any.whl" not in wheel.name, "machine code is for one platform"


def test_its_commands_work_outside_of_the_repository(wheel: Path, server: MysqlServer, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.items (id INT PRIMARY KEY, v JSON)")
    server.run_sql("INSERT INTO shop.items VALUES (1, '[]'), (2, NULL); ALTER TABLE shop.items ADD n DECIMAL(8, 2)")
    installed = Installed(tmp_path, server.url)
    installed.run("doctor")
    assert "2 rows of 1 table" in installed.run("run")
    binlog = server.binlogs()[0]
    assert '"id": 1' in installed.run("decode", str(binlog), "--out", "-")
    check_pages(installed)
    (installed.home / "cache.toml").write_text(f'source = "shop"\n{SHAPES}')
    with start_redis(tmp_path / "redis") as redis:
        words = ("cache", "follow", "--once", "--shapes", str(installed.home / "cache.toml"), "--name", "c")
        installed.run(*words, STRATA_CACHE_URL=redis.url)


def check_pages(installed: Installed) -> None:
    """A page with its style, from the wheel's own templates."""
    process = installed.start(["serve", "--port", str(free_port())], STRATA_SERVE_TOKEN=TOKEN, PYTHONUNBUFFERED="1")
    try:
        assert process.stdout is not None
        address = re.match(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert address is not None
        with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=60) as client:
            page = client.get(f"{address[0]}/tables?source=shop")
            assert "shop.items" in page.text
            (style,) = re.findall(r'href="([^"]+\.css)[^"]*"', page.text)
            assert client.get(str(page.url.join(style))).status_code == 200
    finally:
        process.kill()
        process.communicate(timeout=30)
