"""The application: routes, who may ask, and errors. It is the same in Airflow's web server and alone.
Not here: what a page says (`overview.py`, `tables_page.py`, `table_page.py`), its looks (`templates/`, `static/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from strata.errors import StrataError, Transient, UnknownSourceError, Usage
from strata.schema.answers.changes import changes
from strata.schema.answers.positions import position_of
from strata.schema.answers.search import search
from strata.schema.answers.tables import tables_at
from strata.schema.history.historian import AtSeq, History
from strata.schema.history.sql_store import SchemaStore
from strata.schema.model.definition import TableName
from strata.serve.headers import add_headers
from strata.serve.overview import overview
from strata.serve.rendering import FOLDER, make_environment
from strata.serve.run_page import run_changes
from strata.serve.table_page import Asked, kind_of, table_view
from strata.serve.tables_page import tables_view
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from strata.serve.run_page import Planned
    from strata.serve.sources import Sources

    FindRuns = Callable[[str, str], Sequence[Planned] | None]

_MOST_LINES: Final = 1000

_Source = Annotated[str, Query(max_length=64, description="Name of the source, as in the settings.")]
_Database = Annotated[str, Query(max_length=64)]
_Table = Annotated[str, Query(max_length=64)]
_At = Annotated[str, Query(max_length=100_000, description="A GTID set, FILE:OFFSET or time; empty for the end.")]
_Text = Annotated[str, Query(max_length=200)]
_Id = Annotated[str, Query(max_length=250)]
_VersionId = Annotated[int | None, Query(ge=1)]


def make_app(
    sources: Sources, guard: Callable[..., Any], clock: Callable[[], int], find_runs: FindRuns | None = None
) -> FastAPI:
    """The application.

    Args:
        sources: What the pages speak of.
        guard: A dependency of FastAPI's that refuses who may not read; it stands in front of every route.
        clock: The time now, microseconds UTC.
        find_runs: What a DAG's run has planned, by the ids of both; None if there is no such run.
    """
    # FastAPI's own route of the description has no dependencies, and so no guard.
    app = FastAPI(title="Strata: schema history", dependencies=[Depends(guard)], openapi_url=None)
    app.add_api_route("/openapi.json", lambda: JSONResponse(app.openapi()), include_in_schema=False)
    app.middleware("http")(add_headers)
    _Pages(sources, clock, find_runs).add_to(app)
    _Answers(sources).add_to(app)
    return app


def _store(sources: Sources, source: str) -> sa.Engine:
    engine = sources.store(source)
    if engine is None or SchemaStore(engine).position(source) is None:
        raise UnknownSourceError(
            "nothing has been tracked yet", source=source, remedy=f"Run `strata run --source {source}`."
        )
    return engine


class _Pages:
    """For people."""

    def __init__(self, sources: Sources, clock: Callable[[], int], find_runs: FindRuns | None) -> None:
        self._sources = sources
        self._clock = clock
        self._find_runs = find_runs
        self._templates = make_environment()

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes. Files are served by a route, since a mounted folder has no dependencies, and so no guard."""
        app.exception_handler(StrataError)(self.refuse)
        files = StaticFiles(directory=FOLDER / "static")

        @app.get("/static/{name}", include_in_schema=False)
        async def static(name: str, request: Request) -> Any:
            return await files.get_response(name, request.scope)

        for path, endpoint in (
            ("/", self.overview),
            ("/tables", self.tables),
            ("/table", self.table),
            ("/search", self.search),
            ("/run", self.run),
        ):
            app.add_api_route(path, endpoint, response_class=HTMLResponse, include_in_schema=False)

    def run(self, dag_id: _Id, run_id: _Id) -> HTMLResponse:
        """What changed in the span of a run of Airflow's."""
        planned = self._find_runs(dag_id, run_id) if self._find_runs is not None else None
        if planned is None:
            raise Usage(f"there is no run {run_id!r} of {dag_id!r}")
        return self._show("run.html", run_id=run_id, found=run_changes(self._sources, planned))

    def _show(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        template = self._templates.get_template(name)
        return HTMLResponse(template.render(now=self._clock(), kind_of=kind_of, **values), status)

    async def refuse(self, request: Request, error: StrataError) -> HTMLResponse | JSONResponse:
        """An error of ours as an answer: what happened, and what to run next."""
        status = 400 if isinstance(error, Usage) else 503 if isinstance(error, Transient) else 404
        if "/api/" in request.url.path:
            return JSONResponse(to_plain(error.facts()), status)
        return self._show("error.html", status, error=error)

    def overview(self) -> HTMLResponse:
        """The sources."""
        return self._show("overview.html", views=overview(self._sources))

    def tables(
        self, source: _Source, containing: _Text = "", after_database: _Database = "", after_table: _Table = ""
    ) -> HTMLResponse:
        """The tables of a source."""
        after = TableName(after_database, after_table) if after_table else None
        view = tables_view(_store(self._sources, source), source, after, containing.strip())
        return self._show("tables.html", source=source, containing=containing, view=view)

    def table(
        self,
        source: _Source,
        database: _Database,
        table: _Table,
        at: _At = "",
        before: _VersionId = None,
        after: _VersionId = None,
        older_than: _VersionId = None,
    ) -> HTMLResponse:
        """One table."""
        asked = Asked(at.strip(), before, after, older_than)
        view = table_view(_store(self._sources, source), source, TableName(database, table), asked)
        return self._show("table.html", source=source, asked=asked, view=view)

    def search(self, source: _Source, text: _Text = "") -> HTMLResponse:
        """Search over a source's history."""
        found = search(_store(self._sources, source), source, text.strip()) if text.strip() else None
        return self._show("search.html", source=source, text=text, found=found)


class _Answers:
    """For programs: the lines of `strata schema`, as JSON."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes."""
        app.add_api_route("/api/sources", self.sources, tags=["schema"])
        app.add_api_route("/api/schema", self.schema, tags=["schema"])
        app.add_api_route("/api/history", self.history, tags=["schema"])

    def sources(self) -> JSONResponse:
        """Names of the sources."""
        return JSONResponse(self._sources.names())

    def schema(self, source: _Source, database: _Database, table: _Table, at: _At = "") -> JSONResponse:
        """A table at a point, as a line of `strata schema show`."""
        store = SchemaStore(_store(self._sources, source))
        history = History(store, source)
        position = position_of(history, at) if at.strip() else AtSeq(history.tracked.seq)
        found = tables_at(history, position, TableName(database, table))
        return JSONResponse(next(to_plain(line) for line in found.lines()))

    def history(self, source: _Source, database: _Database, table: _Table) -> JSONResponse:
        """The changes of a table, as lines of `strata schema history`; the newest thousand."""
        store = SchemaStore(_store(self._sources, source))
        listed = [change.line() for change in changes(store, source, TableName(database, table))]
        return JSONResponse([to_plain(line) for line in listed[-_MOST_LINES:]])
