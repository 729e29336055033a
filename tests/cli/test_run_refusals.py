"""What the form of `ingest_binlog` refuses, `strata run` refuses, too: neither asks the server anything before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--source", "nope"], "there is no source 'nope'"),
        (["--from", "yesterday"], "yesterday"),
        (["--until", "2026-02-30T03:30:00Z"], "2026-02-30T03:30:00Z"),
        (["--from", "2026-11-21T03:30:00Z", "--until", "2026-11-21T05:30:00+02:00"], "no time between"),
        (["--until", "2126-11-21T03:30:00Z"], "is in the future"),
        (["--from", "2126-11-21T03:30:00Z"], "no time between"),
        (["--gtid-set", "all"], "all"),
        (["--gtid-set", GTIDS, "--until", "2026-11-21T03:30:00Z"], "not both"),
        (["--table", "app"], '"app" matches no table: it has no dot'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused_before_anything_is_done(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "strata.toml"
    settings.write_text('lake = "lake"\nstore = "sqlite:///s.db"\n[sources.shop]\nconnection = "x"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    # Nobody answers there: who asks would say so.
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://nobody@127.0.0.1:1/")
    assert run(["run", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["strata.toml"]
