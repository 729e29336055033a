"""When the readers' data gets too old: from when a run's deadline counts, and the message when it is missed.
Not here: how old the data may get (`airflow/freshness.py`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from strata_cdc.airflow.older import BaseDeadlineReference
from strata_cdc.counted import counted

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

_LOG = logging.getLogger("strata")


class SpanStart(BaseDeadlineReference):
    """The start of a scheduled run's span: until the run has ended, readers have nothing newer than that.

    Other runs have no deadline: a backfill is about the past.
    """

    required_kwargs: ClassVar[set[str]] = {"dag_id", "run_id"}

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime | None:
        """The scheduler calls it when it makes a run."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.types import DagRunType
        from sqlalchemy import select

        is_this_run = (DagRun.dag_id == dag_id, DagRun.run_id == run_id, DagRun.run_type == DagRunType.SCHEDULED)
        return session.scalar(select(DagRun.data_interval_start).where(*is_this_run))


async def tell_stale(minutes: int, context: dict[str, Any]) -> None:
    """Writes to the triggerer's log that a deadline was missed; Airflow itself counts it and shows it beside the run.

    Args:
        minutes: How old the readers' data is by now.
        context: Airflow's, with the run.
    """
    run = context["dag_run"]
    _LOG.error(
        "the readers' data is older than %s: run %s of %s has not ended; `strata status` shows how far it is",
        counted(minutes, "minute"),
        run["dag_run_id"],
        run["dag_id"],
    )


class FreshnessPlugin(AirflowPlugin):
    """Registers with Airflow from when a deadline counts."""

    name = "strata_freshness"
    deadline_references = [SpanStart]  # noqa: RUF012  Airflow's form
