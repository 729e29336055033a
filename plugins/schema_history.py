"""The page `Schema history` in Airflow: in the navigation, and as a tab of each run.
Not here: what the page shows (`strata.serve`)."""

from __future__ import annotations

import os
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from fastapi import FastAPI

    from strata.serve.run_page import Planned

PREFIX: Final = "/strata"


class _Page:
    """The application, made when the first request comes: every process of Airflow loads its plugins, and one of them
    serves pages. What cannot be made answers nothing: without Airflow's guard there is no page."""

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> FastAPI:
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView  # noqa: PLC0415  see above
        from airflow.api_fastapi.core_api.security import requires_access_view  # noqa: PLC0415  see above

        from strata.config.settings import load_settings  # noqa: PLC0415  see above
        from strata.serve.app import make_app  # noqa: PLC0415  see above
        from strata.serve.sources import Sources  # noqa: PLC0415  see above

        sources = Sources(lambda: load_settings(os.environ, _find_connection))
        guard = requires_access_view(AccessView.PLUGINS)
        return make_app(sources, guard, lambda: time.time_ns() // 1000, _find_runs)


def _find_connection(name: str) -> str | None:
    """The URL of a connection, wherever Airflow keeps it; the web server is no task and has no task's way to ask."""
    from airflow.models.connection import Connection  # noqa: PLC0415  only the web server asks
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415  see above

    try:
        return Connection.get_connection_from_secrets(name).get_uri()
    except AirflowNotFoundException:
        return None


def _find_runs(dag_id: str, run_id: str) -> list[Planned] | None:
    """What a run of Airflow's has planned, source by source."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415  only the web server asks
    from airflow.models.xcom import XComModel  # noqa: PLC0415  see above
    from airflow.utils.session import create_session  # noqa: PLC0415  see above
    from sqlalchemy import select  # noqa: PLC0415  see above

    from strata.serve.run_page import Planned  # noqa: PLC0415  see above

    mine = select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    planned = select(XComModel.value).where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.key == "return_value",
        XComModel.task_id.in_(("plan", "ingest.plan")),
    )
    with create_session() as session:
        if session.scalar(mine) is None:
            return None
        found = session.scalars(planned.order_by(XComModel.map_index)).all()
    return [Planned(value["source"], value["run"]) for value in found]


class SchemaHistoryPlugin(AirflowPlugin):
    """What Airflow finds here."""

    name = "strata_schema_history"
    fastapi_apps = [{"app": _Page(), "url_prefix": PREFIX, "name": "Strata: schema history"}]  # noqa: RUF012 - Airflow's own form
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
    ]
