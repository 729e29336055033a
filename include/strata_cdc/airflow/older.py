"""What Airflow 3.2 lacks, in one place. There, a task is tried again after any error, each trigger of a watched source
has its own connection, and no deadline counts how old the readers' data is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
    from airflow.triggers.shared_stream import SharedStreamProducer
else:
    try:
        from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
        from airflow.triggers.shared_stream import SharedStreamProducer
    except ModuleNotFoundError:
        RetryDecision = RetryPolicy = SharedStreamProducer = object

IS_OLDER: Final = RetryPolicy is object
"""Whether this is Airflow 3.2."""

__all__ = ["IS_OLDER", "RetryDecision", "RetryPolicy", "SharedStreamProducer", "gauge"]


def gauge(name: str, value: float, *, tags: dict[str, Any]) -> None:
    """Sends a number by Airflow's own metrics.

    Args:
        name: With dots between its parts.
        value: The number.
        tags: Its tags, or what follows the name where tags are turned off.
    """
    stats = importlib.import_module("airflow.sdk.observability.stats")
    (stats.Stats if IS_OLDER else stats).gauge(name, value, tags=tags)
