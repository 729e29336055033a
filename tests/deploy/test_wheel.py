"""The wheel, away from the repository: every file of the package is in it, and its commands work with what it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from platform import machine
from typing import TYPE_CHECKING

import httpx
import pytest

from scripts.ports import free_port
from tests.as_new import make_as_new
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
SETTINGS = """lake = "lake"
store = "sqlite:///s.db"
[sources.shop]
connection = "x"
tables = ["shop.*"]
mirrors = ["shop.*"]
"""
OWN_CHECK = '{"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}}]}'
SHAPES = '[shapes.item]\n"shop.items" = ["id"]\n'


def tracked() -> list[Path]:
    """The files of the package that git knows."""
    linking = ["pyproject.toml", "setup.py", "scripts/__init__.py", "scripts/startup"]
    command = ["git", "ls-files", "-z", "--", str(PACKAGE), "README.md", "LICENSE", ":(glob)docs/*.md", *linking]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [Path(name) for name in done.stdout.split("\0") if name]


def copy_tree(folder: Path, paths: Sequence[Path]) -> None:
    """Some files of the repository."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / path, folder / path)


class Installed:
    """A user's settings in a folder, and how the command is called there."""

    def __init__(self, folder: Path, url: str, command: Sequence[str], **variables: str) -> None:
        self.home, self._command = folder / "home", command
        self.home.mkdir(parents=True)
        (self.home / "strata.toml").write_text(SETTINGS)
        kept = ("STRATA", "AIRFLOW", "PYTHONPATH")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(kept)},
            "STRATA_SETTINGS": str(self.home / "strata.toml"),
            "AIRFLOW_CONN_X": url,
            **variables,
        }

    def start(self, words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *words],
            cwd=self.home,
            env={**self._environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, code: int = 0, **variables: str) -> str:
        said, _ = (process := self.start(words, **variables)).communicate(timeout=120)
        assert process.returncode == code, said
        return said


def build_wheel(folder: Path) -> Path:
    """Builds it in an empty folder, of what git knows and of the kernels that set-up has linked."""
    linked = [path.relative_to(REPOSITORY) for path in (REPOSITORY / LINKED).glob("linked_kernels-*")]
    copy_tree(folder, [*tracked(), *linked])
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("tree"))


def test_every_file_of_the_package_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {str(path.relative_to("include")) for path in tracked() if path.is_relative_to(PACKAGE)}
    assert wanted - held == set()
    linked = list((REPOSITORY / LINKED).glob("linked_kernels-*"))
    assert {f"{LINKED.relative_to('include')}/{path.name}" for path in linked} <= held
    assert linked, "set-up has linked no kernels"
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{machine()}.whl"), "for any Python of this platform"


@pytest.mark.soak
def test_pip_links_the_kernels_of_a_copy_that_was_never_set_up(tmp_path: Path) -> None:
    copy_tree(tmp_path / "copy", tracked())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(tmp_path / "copy")]
    subprocess.run(command, check=True)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        assert any("linked_kernels-" in name for name in archive.namelist())


def test_its_commands_work_outside_of_the_repository(wheel: Path, server: MysqlServer, tmp_path: Path) -> None:
    site = str(tmp_path / "site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    installed = Installed(tmp_path, server.url, [sys.executable, "-c", COMMAND.format(site=site)], PYTHONPATH=site)
    check_commands(installed, server)
    (installed.home / "cache.toml").write_text(f'source = "shop"\n{SHAPES}')
    with start_redis(tmp_path / "redis") as redis:
        words = ("cache", "follow", "--once", "--shapes", str(installed.home / "cache.toml"), "--name", "c")
        installed.run(*words, STRATA_CACHE_URL=redis.url)


@pytest.mark.soak
@pytest.mark.parametrize("versions", ["lowest", "locked"])
def test_alone_with_what_it_needs(versions: str, wheel: Path, server: MysqlServer, tmp_path: Path) -> None:
    """No extra is installed: no Airflow, no Spark, no Great Expectations, no compiler of kernels."""
    python = tmp_path / "env" / "bin" / "python"
    uv("venv", "--python", sys.executable, str(tmp_path / "env"))
    chosen = ["--resolution", "lowest-direct"] if versions == "lowest" else ["-c", str(REPOSITORY / "requirements.txt")]
    uv("pip", "install", "--python", str(python), *chosen, str(wheel))
    installed = Installed(tmp_path, server.url, [str(python.with_name("strata"))])
    check_commands(installed, server)
    assert installed.run("docs", "landing") == (REPOSITORY / "docs" / "landing.md").read_text()
    (installed.home / "checks").mkdir()
    (installed.home / "checks" / "shop.items.json").write_text(OWN_CHECK)
    shapes = installed.home / "cache.toml"
    shapes.write_text(f'source = "shop"\n{SHAPES}')
    for extra, lacking in {
        "sql": ("views",),
        "cache": ("cache", "follow", "--once", "--shapes", str(shapes), "--name", "c"),
        "checks": ("run",),
        "spark": ("run", "--engine", "spark", "--from", "2026-01-01"),
    }.items():
        (installed.home / "strata.toml").write_text(SETTINGS + ('checks = "checks"\n' if extra == "checks" else ""))
        check_lacking(installed, extra, *lacking)
    for kernels in python.parents[1].rglob("linked_kernels-*.so"):
        kernels.unlink()
    check_lacking(installed, "compile", "track")


def check_lacking(installed: Installed, extra: str, *command: str) -> None:
    """A command says which extra it needs, and no more than that."""
    said = installed.run(*command, code=3, STRATA_CACHE_URL="redis://127.0.0.1:1")
    assert f"strata-cdc[{extra}]" in said
    assert said.count("\n") <= 12, "no traceback"


def uv(*words: str) -> None:
    """By the index that pip is set to, as the set-up does."""
    command = [str(REPOSITORY / "scripts" / "uv.sh"), "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check_commands(installed: Installed, server: MysqlServer) -> None:
    """What a user does first, on a server with a DDL among its rows."""
    make_as_new(server)
    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.items (id INT PRIMARY KEY, v JSON)")
    server.run_sql("INSERT INTO shop.items VALUES (1, '[]'), (2, NULL); ALTER TABLE shop.items ADD n DECIMAL(8, 2)")
    installed.run("doctor")
    assert "2 rows of 1 table" in installed.run("run")
    server.run_sql("UPDATE shop.items SET n = id; DELETE FROM shop.items WHERE id = 2")
    assert "3 rows of 1 table" in installed.run("run")
    assert "shop.items" in installed.run("mirror", "list")
    assert "1 match, 0 mismatch" in installed.run("reconcile")
    binlog = server.binlogs()[-1]
    assert '"id": 1' in installed.run("decode", str(binlog), "--out", "-")
    check_pages(installed)


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
