"""Registers the deadline's reference with Airflow. Not here: the reference (`deadline.py`)."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from plugins.deadline import SpanStart


class Freshness(AirflowPlugin):
    """The plugin that Airflow loads."""

    name = "strata_freshness"
    deadline_references = [SpanStart]  # noqa: RUF012  Airflow's form
