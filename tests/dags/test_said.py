"""What a failed task's log ends with."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from strata_cdc.airflow.task_logs import show_failure
from strata_cdc.errors import BinlogPurgedError, StoreUnavailableError

TASK = SimpleNamespace(task_id="ingest.land", rendered_map_index="shop")


@pytest.mark.parametrize(
    ("error", "called", "where"),
    [
        (StoreUnavailableError("no answer", remedy="Start it."), "shop", "location: ingest.land of shop"),
        (StoreUnavailableError("no answer", remedy="Start it."), None, "location: ingest.land"),
        (
            BinlogPurgedError("gone", source="s2", gtid="u:1-9", remedy="Start it."),
            "shop",
            "location: source s2, GTID u:1-9",
        ),
    ],
    ids=["of-a-source", "of-all", "named"],
)
def test_a_failure_says_what_where_and_what_to_do(caplog, error, called, where):
    task = SimpleNamespace(task_id="ingest.land", rendered_map_index=called)
    with caplog.at_level(logging.ERROR, "strata"):
        show_failure({"exception": error, "ti": task})
    assert caplog.messages == [f"problem: {error.message} ({type(error).__name__})", where, "what to do: Start it."]


def test_of_an_error_that_is_not_tried_again_it_says_the_cause(caplog):
    failure = AirflowFailException("a retry would end the same way")
    failure.__cause__ = BinlogPurgedError("gone")
    with caplog.at_level(logging.ERROR, "strata"):
        show_failure({"exception": failure, "ti": TASK})
    assert caplog.messages[0] == "problem: gone (BinlogPurgedError)"


def test_without_an_error_it_says_nothing(caplog):
    with caplog.at_level(logging.ERROR, "strata"):
        show_failure({"ti": TASK})
    assert caplog.messages == []
