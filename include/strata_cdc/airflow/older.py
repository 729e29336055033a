"""What Airflow 3.1 and 3.2 lack, in one place: names that lay elsewhere there, and what stands for what was not there.

In both, tasks themselves decide whether they are tried again, each trigger of a watched source has its own connection,
and no deadline counts how old the readers' data is. In 3.1, a task cannot ask for the newest events of an asset without
the others."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset, Connection, CronDataIntervalTimetable
    from airflow.sdk.configuration import conf
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.definitions.deadline import BaseDeadlineReference
    from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        ParamValidationError,
    )
    from airflow.triggers.shared_stream import SharedStreamProducer
else:

    def _first(name: str, *modules: str) -> Any:
        """What has this name in the first of the modules that has it."""
        for module in modules:
            try:
                return getattr(importlib.import_module(module), name)
            except (ModuleNotFoundError, AttributeError):
                continue
        raise ImportError(f"this Airflow has no {name} in {' or '.join(modules)}")

    def _if_there(name: str, module: str) -> Any:
        """The same, or `object`, for what has nothing to inherit from in an older Airflow."""
        try:
            return _first(name, module)
        except ImportError:
            return object

    # Since 3.3.
    RetryDecision = _if_there("RetryDecision", "airflow.sdk.definitions.retry_policy")
    RetryPolicy = _if_there("RetryPolicy", "airflow.sdk.definitions.retry_policy")
    SharedStreamProducer = _if_there("SharedStreamProducer", "airflow.triggers.shared_stream")
    # Since 3.2.
    BaseDeadlineReference = _if_there("BaseDeadlineReference", "airflow.sdk.definitions.deadline")
    # Since 3.2, and where they lay before.
    AirflowException = _first("AirflowException", "airflow.sdk.exceptions", "airflow.exceptions")
    AirflowFailException = _first("AirflowFailException", "airflow.sdk.exceptions", "airflow.exceptions")
    AirflowNotFoundException = _first("AirflowNotFoundException", "airflow.sdk.exceptions", "airflow.exceptions")
    AirflowSkipException = _first("AirflowSkipException", "airflow.sdk.exceptions", "airflow.exceptions")
    ParamValidationError = _first("ParamValidationError", "airflow.sdk.exceptions", "airflow.exceptions")
    CronDataIntervalTimetable = _first("CronDataIntervalTimetable", "airflow.sdk", "airflow.timetables.interval")
    conf = _first("conf", "airflow.sdk.configuration", "airflow.configuration")
    AsyncCallback = _first("AsyncCallback", "airflow.sdk.definitions.callback", "airflow.sdk.definitions.deadline")

IS_OLDER: Final = RetryPolicy is object
"""Whether this is Airflow 3.1 or 3.2."""

__all__ = [
    "IS_OLDER",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "AsyncCallback",
    "BaseDeadlineReference",
    "CronDataIntervalTimetable",
    "ParamValidationError",
    "RetryDecision",
    "RetryPolicy",
    "SharedStreamProducer",
    "conf",
    "connection_uri",
    "gauge",
    "newest_events",
]


def gauge(name: str, value: float, *, tags: dict[str, Any]) -> None:
    """Sends a number by Airflow's own metrics.

    Args:
        name: With dots between its parts.
        value: The number.
        tags: Its tags, or what follows the name where tags are turned off.
    """
    try:
        stats = importlib.import_module("airflow.sdk.observability.stats")
    except ModuleNotFoundError:
        stats = importlib.import_module("airflow.stats")
    (stats.Stats if IS_OLDER else stats).gauge(name, value, tags=tags)


def newest_events(asset: Asset, most: int) -> Sequence[Any]:
    """The newest events of any asset, the newest first; a task's own accessor knows only what the DAG file names.

    Args:
        most: How many events, at most.
    """
    context = importlib.import_module("airflow.sdk.execution_time.context")
    if hasattr(context, "InletEventsAccessor"):
        accessor = context.InletEventsAccessor(asset_name=asset.name, asset_uri=asset.uri)
        newest: Sequence[Any] = accessor.ascending(ascending=False).limit(most)
        return newest
    # 3.1 answers with all of them, in the order of their times.
    events: list[Any] = context.InletEventsAccessors([asset])[asset]
    return events[: -most - 1 : -1]


async def connection_uri(connection: Connection) -> str:
    """The URI of a connection in a trigger. Before 3.3 only the other way was there, which does no input or output
    beside the message that masks its secrets, and survives that this message cannot be sent."""
    asynchronous = getattr(connection, "aget_uri", None)
    return str(connection.get_uri() if asynchronous is None else await asynchronous())
