"""`strata upgrade` on the stores of former versions, and `strata version`."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scripts.state import REPOSITORY
from strata_cdc.cli.main import run
from strata_cdc.cli.version import formats
from strata_cdc.store.migrations import FORMAT
from tests.formats.record import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

RECORDINGS = sorted(path.name for path in GOLDEN.iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "strata.toml").write_text(
        f'lake = "{tmp_path}/lake"\n[sources.s]\nconnection = "s"\nstore = "sqlite:///{tmp_path}/store.db"\n'
        f'[sources.new]\nconnection = "s"\nstore = "sqlite:///{tmp_path}/new.db"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_S", "mysql://u:secret@127.0.0.1:1/")
    return tmp_path


def stored_format(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "store.db")) as store:
        return int(store.execute("SELECT format FROM store_format").fetchone()[0])


def set_format(folder: Path, number: int) -> None:
    with closing(sqlite3.connect(folder / "store.db")) as store, store:
        store.execute("UPDATE store_format SET format = ?", [number])


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_store_of_a_former_version(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(GOLDEN / name / "store.db", folder)
    before = stored_format(folder)
    assert run(["upgrade", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert stored_format(folder) == before, "a dry run changes nothing"
    assert not (folder / "new.db").exists()
    assert "new.db (1 source): there is no store yet" in shown
    assert (f"format {before} becomes {FORMAT}" in shown) == (before < FORMAT)

    assert run(["upgrade", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["sources"], line["stored_format"], line["upgraded"]) for line in lines] == [
        (["new"], None, False),
        (["s"], before, before < FORMAT),
    ]
    assert stored_format(folder) == FORMAT
    with closing(sqlite3.connect(folder / "store.db")) as store:
        lacking = "SELECT COUNT(*) FROM table_version WHERE effect IS NULL OR (fingerprint > '' AND column_ids IS NULL)"
        assert store.execute(lacking).fetchone() == (0,)
    assert run(["upgrade"]) == 0
    assert f"format {FORMAT}, as this version writes it" in capsys.readouterr().out


def test_a_newer_store_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(GOLDEN / RECORDINGS[0] / "store.db", folder)
    set_format(folder, FORMAT + 1)
    for words in (["upgrade", "--dry-run"], ["upgrade"]):
        assert run(words) != 0
        assert f"the store has format {FORMAT + 1}" in capsys.readouterr().err
    assert stored_format(folder) == FORMAT + 1


def test_what_is_no_store_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "store.db").write_text("a text")
    assert run(["upgrade"]) != 0
    printed = capsys.readouterr()
    assert "is not an SQLite database" in printed.err
    assert "secret" not in printed.err + printed.out
    assert (folder / "store.db").read_text() == "a text"


def test_the_changelog_has_the_formats_of_this_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    newest = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    assert newest.startswith(shown["version"])
    table = dict(re.findall(r"^\| ([a-z ]+?) \| (\d+) \|$", newest, re.MULTILINE))
    assert table == {name: str(number) for name, number in formats().items()}
