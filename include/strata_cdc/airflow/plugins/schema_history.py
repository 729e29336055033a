"""The page `Schema history` in Airflow: in the navigation, and as a tab of each run and task.
Not here: what the page shows (`serve/`)."""

from __future__ import annotations

import importlib
import os
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from airflow.plugins_manager import AirflowPlugin
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from fastapi import FastAPI

    from strata_cdc.config.settings import Settings
    from strata_cdc.serve.around import AirflowTask
    from strata_cdc.serve.run_page import PlannedByAirflow

PREFIX: Final = "/strata"
DATA_DOCS: Final = "../strata-docs"
"""Where `data_docs.py` serves them, relative to the pages: Airflow's address may include a path."""
_PLAN: Final = "plan"
"""The task that plans, in a group or in none; its return value names the run."""


class _PageApplication:
    """The application, made when the first request comes: every process of Airflow loads its plugins, and only one
    serves pages. If it cannot be made, nothing is answered: there is no page without Airflow's access check."""

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> FastAPI:
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
        from airflow.api_fastapi.core_api.security import requires_access_view

        from strata_cdc.serve.app import make_app
        from strata_cdc.serve.around import PageHost
        from strata_cdc.serve.numbers import Numbers
        from strata_cdc.serve.sources import Sources

        around = PageHost(Numbers(_read_numbers), _find_runs, _find_task, DATA_DOCS, asks_for_rows=True)
        return make_app(Sources(_settings), requires_access_view(AccessView.PLUGINS), _now, around)


def _now() -> int:
    return time.time_ns() // 1000


def _settings() -> Settings:
    from strata_cdc.config.settings import load_settings

    return load_settings(os.environ, _find_connection)


def _read_numbers(source: str) -> Mapping[str, float | None]:
    # Imported by name: it loads Arrow, which no other import of this file may do.
    metrics = importlib.import_module("strata_cdc.ops.metrics")
    return asdict(metrics.read_metrics(source, settings=_settings(), now=_now()))


def _find_connection(name: str) -> str | None:
    """The URL of a connection, from whichever backend Airflow uses; the web server cannot read it as a task does."""
    from airflow.models.connection import Connection

    from strata_cdc.airflow.older import AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(name).get_uri()
    except AirflowNotFoundException:
        return None


def _find_runs(dag_id: str, run_id: str, map_index: int | None) -> list[PlannedByAirflow] | None:
    """The planned runs of a run of Airflow, source by source, or for the source of one mapped task."""
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from strata_cdc.serve.run_page import PlannedByAirflow

    this_run = select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    planned = select(XComModel.value).where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.key == "return_value",
        _plans(XComModel.task_id),
    )
    if map_index is not None:
        planned = planned.where(XComModel.map_index == map_index)
    with create_session() as session:
        if session.scalar(this_run) is None:
            return None
        values = session.scalars(planned.order_by(XComModel.map_index)).all()
    # A DAG of a user may have a task of his own of that name.
    return [PlannedByAirflow(value["source"], value["run"]) for value in values if _is_plan(value)]


def _plans(task_id: Any) -> Any:
    from sqlalchemy import or_

    return or_(task_id == _PLAN, task_id.endswith(f".{_PLAN}", autoescape=True))


def _is_plan(value: object) -> bool:
    return isinstance(value, dict) and {"source", "run"} <= value.keys()


def _find_task(run: str) -> AirflowTask | None:
    """The task that planned a run; it is looked up only when somebody follows a link."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import String, cast, select

    from strata_cdc.serve.around import AirflowTask

    query = (
        select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index)
        .where(
            XComModel.key == "return_value",
            _plans(XComModel.task_id),
            cast(XComModel.value, String).contains(f'"{run}"', autoescape=True),
        )
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    )
    with create_session() as session:
        row = session.execute(query).first()
    return None if row is None else AirflowTask(*row)


class SchemaHistoryPlugin(AirflowPlugin):
    """The plugin that Airflow loads."""

    name = "strata_schema_history"
    fastapi_apps = [{"app": _PageApplication(), "url_prefix": PREFIX, "name": "Strata: schema history"}]  # noqa: RUF012 - Airflow's own form
    external_views = [  # noqa: RUF012  see above
        {
            "name": "Schema history",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "schema-history",
            "nav_top_level": True,
            "icon": f"{PREFIX}/static/strata.svg",
        },
        {
            "name": "What changed",
            "href": f"{PREFIX}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "what-changed",
        },
        {
            "name": "What changed",
            "href": f"{PREFIX}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&map_index={{MAP_INDEX}}",
            "destination": "task_instance",
            "url_route": "what-changed-here",
        },
    ]
