"""A source whose `kind` was changed after something had landed: every step refuses, and changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata_cdc.cli.main import run
from strata_cdc.landing.land_files import land_files
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.world import SinkWorld

RECORDED = Path(__file__).parents[1] / "changes" / "recorded" / "many_rows.binlog"
STEPS = (
    "run",
    "land",
    "snapshot",
    "track",
    "plan",
    "decode RUN",
    "check none",
    "publish none",
    "housekeep",
    "retain",
    "dump --table shop.a",
)
SERVER_NOW = 'the settings say that it is a server (`kind = "mysql"`), and what has landed under this name is of the f'
SINK_NOW = "the settings say that it is the folder of a TiCDC sink"


def sink_of(folder: Path) -> SinkWorld:
    world = SinkWorld(folder)
    feed = Feed(world.sink, FeedForm(old_value=True))
    feed.write(feed.table("a", (SinkColumn("id", pk=True, nullable=False),)), [Row(START + 1, {"id": 1})])
    feed.checkpoint(START + 10)
    return world


def as_server(world: SinkWorld) -> Path:
    path = world.settings_file
    path.write_text('lake = "lake"\n[sources.s]\nconnection = "c"\nstore = "sqlite:///store.db"\n')
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (folder / "lake" / "landing").rglob("0*")}


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("to", ["server", "ticdc"])
def test_every_step_refuses_what_the_other_kind_has_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], to: str, stored: bool
) -> None:
    # Nothing listens there: what is refused is refused before the server is called.
    monkeypatch.setenv("AIRFLOW_CONN_C", "mysql://u:p@127.0.0.1:1/")
    world = sink_of(tmp_path)
    if to == "server":
        first = "run" if stored else "land"
        monkeypatch.setenv("STRATA_SETTINGS", str(world.settings_file))
        assert run([first]) == 0
        as_server(world)
    else:
        archive = tmp_path / "archive"
        archive.mkdir()
        shutil.copy(RECORDED, archive / "binlog.000001")
        land_files(str(archive), lake=str(tmp_path / "lake"), source="s")
        monkeypatch.setenv("STRATA_SETTINGS", str(as_server(world)))
        if stored:
            run(["track"])
        world.settings_file.touch()
    landed = files_of(tmp_path)
    assert landed
    runs = [path.parent.name for path in (tmp_path / "lake").rglob("plan.json")]
    for step in STEPS:
        if ("RUN" in step and not runs) or (step == "run" and not stored):
            continue  # there is no run; or a run asks the server first whether it could land at all
        capsys.readouterr()
        assert run(step.replace("RUN", *runs).split() if runs else step.split()) != 0, step
        said = " ".join("".join(capsys.readouterr()).split())
        assert (SERVER_NOW if to == "server" else SINK_NOW) in said, (step, said)
        assert "with another name; or set `kind` as it was" in said, step
        assert files_of(tmp_path) == landed


def test_a_kind_may_change_before_anything_has_landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_C", "mysql://u:p@127.0.0.1:1/")
    world = sink_of(tmp_path)
    monkeypatch.setenv("STRATA_SETTINGS", str(as_server(world)))
    run(["track"])
    assert (tmp_path / "lake" / "landing" / "s" / "lake.json").exists()
    world.run()
    world.run()
    assert len(world.changes()) == 1
