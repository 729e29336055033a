"""`strata init`: a file that can be read, statements that make an account which suffices, and nothing overwritten."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.cli.main import run
from strata_cdc.config.new_settings import NewSettings
from strata_cdc.config.settings import load_settings, parse_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))


@pytest.mark.mysql
@pytest.mark.parametrize("store", [(), ("--store", "sqlite:///strata.db")])
def test_what_it_says_suffices(
    store: tuple[str, ...], server: MysqlServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run_sql("DROP USER IF EXISTS strata; DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS strata")
    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY); INSERT INTO shop.a VALUES (1)")
    assert run(["init", "--table", "shop.*", *store]) == 0
    said = capsys.readouterr().out
    statements = re.findall(r"^  ((?:CREATE|GRANT) .*;)$", said, re.MULTILINE)
    assert len(statements) == 3 - bool(store)
    server.run_sql(" ".join(statements).replace("PASSWORD", "it is secret"))
    (variable,) = re.findall(r"export (AIRFLOW_CONN_\w+)=", said)
    monkeypatch.setenv(variable, f"mysql://strata:it%20is%20secret@127.0.0.1:{server.port}/")
    assert run(["doctor"]) == 0
    assert run(["run"]) == 0
    assert run(["mirror", "list"]) == 0
    assert "shop.a" in capsys.readouterr().out
    # Somebody whose connection is set is shown at once what the doctor finds.
    # With a store that knows another lake, that is a problem.
    assert run(["init", "--table", "shop.*", *store, "--file", "more/strata.toml"]) == (0 if store else 3)
    said = capsys.readouterr().out
    assert "REPLICATION SLAVE" in said
    assert "secret" not in said
    assert variable not in said


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "strata.toml").write_text("mine")
    assert run(["init"]) == 2
    assert "strata.toml is there already" in capsys.readouterr().err
    assert (tmp_path / "strata.toml").read_text() == "mine"


@pytest.mark.parametrize(
    "words", [("--source", "a b"), ("--table", "shop"), ("--lake", "a[b"), ("--store", ""), ("--source", "")]
)
def test_what_could_not_be_read_is_not_written(words: tuple[str, ...], tmp_path: Path) -> None:
    assert run(["init", *words]) in {0, 2}
    path = tmp_path / "strata.toml"
    if path.exists():
        load_settings({"STRATA_SETTINGS": str(path)})


def test_a_wrong_name_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--source", "a b"]) == 2
    assert "sources.a b: a name has letters, digits, - and _" in capsys.readouterr().err


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--source", "eu-1", "--no-mirrors", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["file"], said["variable"], len(said["account"])) == ("strata.toml", "AIRFLOW_CONN_MYSQL_EU_1", 3)


texts = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(texts.map("a.".__add__), texts, texts)
def test_any_text_is_written_so_that_it_is_read_again(table: str, lake: str, store: str) -> None:
    new = NewSettings(
        "shop", (table, "b.*"), f"/{lake}".translate(dict.fromkeys(map(ord, "\\[]{}*?%@"))), f"sqlite:////{store}", True
    )
    settings = parse_settings(new.to_toml(), "/x/strata.toml", lambda _: None).sources["shop"]
    assert settings.tables == settings.mirrors == (table, "b.*")
