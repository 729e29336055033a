"""A number is a position of a TiCDC sink alone: every command refuses it for a server, and names what it takes."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from tests.docs.reader import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

BINLOG = REPOSITORY / "tests/binlog/golden/mixed.binlog"
SETTINGS = 'lake = "{folder}/lake"\nstore = "sqlite:///{folder}/s.db"\n[sources.shop]\nconnection = "x"\n'
TABLE = "strata_live.t"
COMMANDS = [
    "schema diff --from {number}",
    "schema diff --to {number}",
    "schema diff --from {number} --store {store}",
    "schema show --commit-ts {number}",
    "position --commit-ts {number}",
    "row history {table} 1 --from {number}",
    "row history {table} 1 --to {number}",
    "row diff {table} 1 --from {number}",
    "row blame {table} 1 --at {number}",
    "sql --at {number} 'SELECT * FROM {table}'",
    "sql \"SELECT * FROM {table} FOR SYSTEM_TIME AS OF TIMESTAMP '{number}'\"",
    "undo --table {table} --from {number}",
    "stream --from {number}",
    "stream --from beginning --until {number}",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake and a store with what a server has written."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "strata.toml").write_text(SETTINGS.format(folder=folder))
    (folder / "archive").mkdir()
    shutil.copy(BINLOG, folder / "archive" / "binlog.000001")
    return folder


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STRATA_SETTINGS", str(folder / "strata.toml"))
    # Nobody listens there.
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1:1/")
    if not (folder / "lake").exists():
        assert run(["land", "--files", str(folder / "archive")]) == 0
        assert run(["track"]) == 0
    return f"sqlite:///{folder}/s.db"


@pytest.mark.parametrize("number", ["20231114", "449012345678901234", "449012345678901234:rows"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_is_no_position_of_a_server(store, capsys, command, number):
    capsys.readouterr()
    words = shlex.split(command.format(number=number, store=store, table=TABLE))
    assert run(words) == 2
    said = capsys.readouterr().err
    assert f"'{number}' is no " in said or f"'{number}' is a number: only positions of a TiCDC sink are" in said
    assert "2026-" in said or "or a time" in said
