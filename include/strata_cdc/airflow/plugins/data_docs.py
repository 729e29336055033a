"""Data Docs of runs as pages of Airflow's api-server, for those who are logged in and may see plugins.
Not here: making them (`strata_cdc.quality.check_step.data_docs`), the link to them (`airflow/docs_link.py`).

Every Airflow process imports this file; what serves pages is imported with the first request.
"""

from __future__ import annotations

import importlib
import os
import threading
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from strata_cdc.config.settings import load_settings
from strata_cdc.errors import StrataError, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    _Message = MutableMapping[str, Any]

PAGES = "/strata-docs"
_MAKING = threading.Lock()
"""Great Expectations keeps global state, so pages are made one run at a time."""
_KINDS = {".html": "text/html; charset=utf-8", ".ico": "image/x-icon"}
_HEADERS = {
    # The pages quote values of rows: a script in such a value must not reach Airflow's session.
    "Content-Security-Policy": "sandbox allow-scripts allow-popups",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def page_of(source: str, run: str, page: str) -> bytes:
    """The bytes of one page.

    Raises:
        Usage: There is no such source, run or page.
        SettingsError: There are no settings, or they have mistakes.
        LakeUnavailableError: The lake does not answer.
    """
    settings = load_settings(os.environ)
    parts = PurePosixPath(page).parts
    if source not in settings.sources or not parts or {"..", ".", "/"} & {run, *parts} or "\\" in page:
        raise Usage("there is no such page", source=source)
    # The api-server loads Arrow only if somebody reads a page.
    folder = importlib.import_module("strata_cdc.runs.run_folder").run_folder(settings.lake, source, run)
    made = importlib.import_module("strata_cdc.quality.check_step.data_docs")
    read = importlib.import_module("strata_cdc.files.storage").read_file
    url = f"{folder.url}/{made.DOCS}/{'/'.join(parts)}"
    content = read(url)
    if content is None and parts == (made.INDEX,):
        # If nothing failed, the pages do not exist yet: they are made for the first person who opens them.
        with _MAKING:
            made.complete_docs(folder)
        content = read(url)
    if content is None:
        raise Usage(
            "there is no such page: a run has Data Docs if rows of it were checked, and they are deleted with the run",
            source=source,
        )
    return bytes(content)


async def pages(scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Any) -> None:
    """The pages as an ASGI application."""
    await _app()(scope, receive, send)


@cache
def _app() -> Any:
    # Imported here: see the head of this file.
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends, FastAPI, Response

    app = FastAPI(dependencies=[Depends(requires_access_view(AccessView.PLUGINS))], openapi_url=None)

    def show(source: str, run: str, page: str) -> Any:
        try:
            content = page_of(source, run, page)
        except StrataError as error:
            code = 404 if isinstance(error, Usage) else 503
            return Response(error.message, code, _HEADERS, media_type="text/plain; charset=utf-8")
        kind = _KINDS.get(PurePosixPath(page).suffix, "application/octet-stream")
        return Response(content, 200, _HEADERS, media_type=kind)

    app.get("/{source}/{run}/{page:path}")(show)
    return app


class DataDocs(AirflowPlugin):
    """Registers the pages."""

    name = "strata_data_docs"
    fastapi_apps = [{"app": pages, "url_prefix": PAGES, "name": "Strata's Data Docs"}]  # noqa: RUF012  Airflow's form
