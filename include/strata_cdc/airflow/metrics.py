"""A source's numbers as gauges of Airflow's own metrics: OpenTelemetry or StatsD, whichever Airflow's settings turn on.
Not here: the numbers (`strata_cdc.ops.metrics`)."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from msgspec.structs import asdict

from strata_cdc.airflow.older import gauge
from strata_cdc.clock import now_micros
from strata_cdc.errors import StrataError

_LOG = logging.getLogger(__name__)


def send_metrics(source: str, settings: Any) -> None:
    """Sends `strata.NAME` for each number that is known, with the tag `source`. A task never fails because of it."""
    read_metrics = importlib.import_module("strata_cdc.ops.metrics").read_metrics
    try:
        numbers = read_metrics(source, settings=settings, now=now_micros())
    except StrataError as error:
        _LOG.warning("%s: no metrics are sent: %s", source, error)
        return
    for name, value in asdict(numbers).items():
        if value is not None:
            gauge(f"strata.{name}", value, tags={"source": source})
