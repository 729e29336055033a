"""The example of a consumer, with events as Airflow hands them to a run: those of tables come under an alias, too.
Not here: a run that assets start (`tests/airflow/test_live.py`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import (
    AssetAliasReferenceAssetEventDagRun,
    AssetEventDagRunReference,
    AssetReferenceAssetEventDagRun,
)
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor, set_current_context

from dags.examples.read_changes import CHANGES, DDL, list_intervals
from strata_cdc.airflow.assets import PUBLISHED


def event(asset: Any, extra: dict[str, Any], *aliases: str) -> AssetEventDagRunReferenceResult:
    reference = AssetEventDagRunReference(
        asset=AssetReferenceAssetEventDagRun(name=asset.name, uri=asset.uri, extra={}),
        extra=extra,
        source_task_id=None,
        source_dag_id=None,
        source_run_id=None,
        source_map_index=None,
        source_aliases=[AssetAliasReferenceAssetEventDagRun(name=name) for name in aliases],
        timestamp=datetime(2026, 11, 23, tzinfo=UTC),
    )
    return AssetEventDagRunReferenceResult.from_asset_event_dag_run_reference(reference)


def listed(*events: AssetEventDagRunReferenceResult) -> list[str]:
    context: Any = {"triggering_asset_events": TriggeringAssetEventsAccessor.build(events)}
    with set_current_context(context):
        found: list[str] = list_intervals.function()
    return found


def test_each_interval_comes_once() -> None:
    published = [event(CHANGES, {"interval": start}, PUBLISHED.name) for start in (300, 0, 300)]
    reported = event(DDL, {"payload": {"statement": "ALTER TABLE orders ADD b INT"}})
    assert listed(*published, reported) == ["0", "300"]


def test_ddl_alone_is_no_reason_to_start_spark(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), pytest.raises(AirflowSkipException):
        listed(event(DDL, {"payload": {"statement": "ALTER TABLE orders ADD b INT"}}))
    assert "ADD b INT" in caplog.text
