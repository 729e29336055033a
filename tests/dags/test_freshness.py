"""The alert on old data: Airflow finds its reference in a plugin, and a scheduled run's deadline counts from where its
span begins."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from airflow import plugins_manager
from airflow.models.dagrun import DagRun
from airflow.sdk.serde import deserialize
from airflow.serialization.decoders import decode_deadline_reference
from airflow.serialization.encoders import encode_deadline_alert
from sqlalchemy.orm import Session

from strata_cdc.airflow.freshness import freshness
from strata_cdc.airflow.plugins.deadline import FreshnessPlugin, SpanStart, tell_stale

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 21, 3, 30, tzinfo=UTC)


@pytest.fixture
def session():
    """A database of Airflow's with a run of each kind, all of the same five minutes."""
    engine = sa.create_engine("sqlite://")
    runs: Any = DagRun.__table__
    with engine.begin() as connection:
        columns = [sa.Column(one.name, one.type) for one in runs.columns]
        table = sa.Table(runs.name, sa.MetaData(), *columns)
        table.create(connection)
        for kind in ("scheduled", "manual", "backfill", "asset_triggered"):
            values = {"dag_id": "ingest_binlog", "run_id": kind, "run_type": kind, "data_interval_start": START}
            connection.execute(table.insert().values(values))
    with Session(engine) as found:
        yield found


def settings(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = folder / "strata.toml"
    path.write_text(f'lake = "lake"\n{text}\n[sources.shop]\nconnection = "x"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(path))


def test_there_is_none_unless_the_settings_say_how_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert freshness() is None
    for text in ("", "fresh_within_minutes = 5", "lake ="):
        settings(tmp_path, monkeypatch, text)
        assert freshness() is None, text


def test_a_scheduled_run_is_due_so_long_after_its_span_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    settings(tmp_path, monkeypatch, "fresh_within_minutes = 30")
    alert = freshness()
    assert alert is not None
    stored = encode_deadline_alert(alert)
    [found] = FreshnessPlugin.deadline_references
    registered = {"strata_cdc.airflow.plugins.deadline.SpanStart": found}
    monkeypatch.setattr(plugins_manager, "get_deadline_references_plugins", lambda: registered)
    reference = decode_deadline_reference(stored["reference"])
    due = {
        run: reference.evaluate_with(
            session=session, interval=deserialize(stored["interval"]), dag_id="ingest_binlog", run_id=run
        )
        for run in ("scheduled", "manual", "backfill", "asset_triggered")
    }
    assert due.pop("scheduled") == START + timedelta(minutes=30)
    assert set(due.values()) == {None}, "a backfill is about the past"
    assert SpanStart.__module__ == "strata_cdc.airflow.plugins.deadline", "that is how Airflow stores it"


def test_what_is_said_when_it_was_missed(caplog: pytest.LogCaptureFixture) -> None:
    run = {"dag_run_id": "scheduled__1", "dag_id": "ingest_binlog"}
    with caplog.at_level(logging.ERROR, "strata"):
        asyncio.run(tell_stale(30, {"dag_run": run}))
    assert "older than 30 minutes: run scheduled__1 of ingest_binlog has not ended" in caplog.text
