"""Tells Airflow of the deadline's reference. Not here: the reference (`deadline.py`)."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from plugins.deadline import SpanStart


class Freshness(AirflowPlugin):
    """What Airflow finds here."""

    name = "strata_freshness"
    deadline_references = [SpanStart]  # noqa: RUF012  Airflow's form
