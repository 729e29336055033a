"""How old the readers' data may get before Airflow alerts: as the settings say; no alert without settings.
Not here: from when the age counts, and the message (`airflow/plugins/deadline.py`)."""

from __future__ import annotations

import logging
import os
from datetime import timedelta

from airflow.sdk.definitions.deadline import DeadlineAlert

from strata_cdc.airflow.older import IS_OLDER, AsyncCallback
from strata_cdc.airflow.plugins.deadline import SpanStart, tell_stale
from strata_cdc.config.settings import are_given, load_settings
from strata_cdc.errors import StrataError

_LOG = logging.getLogger(__name__)


def freshness() -> DeadlineAlert | None:
    """The alert of `fresh_within_minutes`; None if the settings have none, or cannot be read here: the first step of
    a run reports why."""
    if not are_given(os.environ):
        return None
    try:
        minutes = load_settings(os.environ).fresh_within_minutes
    except StrataError:
        return None
    if minutes is not None and IS_OLDER:
        _LOG.warning("there is no alert: fresh_within_minutes needs Airflow 3.3")
    if minutes is None or IS_OLDER:
        return None
    callback = AsyncCallback(tell_stale, {"minutes": minutes})
    return DeadlineAlert(SpanStart(), timedelta(minutes=minutes), callback, name=f"fresh within {minutes} minutes")
