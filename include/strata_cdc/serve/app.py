"""The application: routes, who has access, and errors. It is the same in Airflow's web server and alone.
Not here: what a page shows (`overview.py`, `table_page.py`, ...), its looks (`templates/`, `static/`)."""

from __future__ import annotations

import re
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from strata_cdc.errors import AlreadyRunningError, BadData, StrataError, Transient, UnknownSourceError, Usage
from strata_cdc.extras import missing_extra
from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.answers.search import search
from strata_cdc.schema.answers.tables import tables_at
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.serve.around import PageHost
from strata_cdc.serve.bounded_bodies import BoundedBodies
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.overview import overview
from strata_cdc.serve.parameter_words import refuse_repeated, refused_parameters
from strata_cdc.serve.points import commit_timestamps, moment_forms, point_forms, position_at
from strata_cdc.serve.rendering import FOLDER, make_environment
from strata_cdc.serve.row_page import row_view, rows_at
from strata_cdc.serve.run_page import run_changes
from strata_cdc.serve.table_page import TablePageRequest, kind_of, table_view
from strata_cdc.serve.tables_page import tables_view
from strata_cdc.serve.undo_page import undo_view
from strata_cdc.serve.verdict_page import verdict_view, verdicts_view
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.verdicts import VerdictLedger
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from strata_cdc.serve.sources import Sources


# How many pages are made at once that read many rows: memory and processors are also needed by others.
_AT_ONCE: Final = 2
_WAIT_SECONDS: Final = 20.0


class CostlyPages:
    """The pages that are being made."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def making(self, source: str) -> Iterator[None]:
        """Within the block a page is made.

        Raises:
            AlreadyRunningError: Others are being made, and have not ended after a while.
        """
        if not self._free.acquire(timeout=_WAIT_SECONDS):
            raise AlreadyRunningError(
                f"{_AT_ONCE} pages with rows are being made", source=source, remedy="Load the page again in a moment."
            )
        try:
            yield
        finally:
            self._free.release()


# The headers of every answer: with them a browser runs nothing but our own files, whatever the names in a binlog are.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_RAW: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Headers:
    """A middleware: puts the headers on whatever is answered, and lets a stream pass as it comes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(header for header in _RAW if header[0] not in given)]
            await send(message)

        await self._app(scope, receive, with_headers)


_MOST_LINES: Final = 1000
_MAP_INDEX: Final = re.compile("[0-9]{1,9}")

_Source = Annotated[str, Query(max_length=64, description="Name of the source, as in the settings.")]
_Database = Annotated[str, Query(max_length=64)]
_Table = Annotated[str, Query(max_length=64)]
_POINT: Final = "A GTID set, FILE:OFFSET or time; of a TiCDC sink a commit timestamp or time; empty for the end."
_At = Annotated[str, Query(max_length=100_000, description=_POINT)]
_Text = Annotated[str, Query(max_length=200)]
_Where = Annotated[str, Query(max_length=2000, description="A condition of MySQL's SQL; empty for all rows.")]
_Key = Annotated[list[Annotated[str, Query(max_length=3072)]] | None, Query(max_length=16)]
_Id = Annotated[str, Query(max_length=250)]
_MapIndex = Annotated[str, Query(max_length=11, description="Of a task; anything else than a number is none.")]
_VersionId = Annotated[int | None, Query(ge=1)]
_Micros = Annotated[int, Query(ge=0, lt=1 << 63, description="Start of an interval, microseconds UTC.")]
_Offset = Annotated[int, Query(ge=0, lt=1 << 31)]


def make_app(
    sources: Sources,
    guard: Callable[..., Any],
    clock: Callable[[], int],
    around: PageHost | None = None,
    limits: Limits = Limits(),
) -> FastAPI:
    """The application.

    Args:
        sources: What the pages speak of.
        guard: A dependency of FastAPI's that refuses requests without permission; it runs before every route.
        clock: The time now, microseconds UTC.
        around: What else there is where it runs.
        limits: Of what requests bring.
    """
    # FastAPI's own route of the description has no dependencies, and so no guard.
    app = FastAPI(title="Strata: schema history", dependencies=[Depends(guard)], openapi_url=None)
    app.add_api_route("/openapi.json", lambda: JSONResponse(app.openapi()), include_in_schema=False)
    app.add_middleware(BoundedBodies, limits=limits)
    app.add_middleware(Headers)
    _Pages(sources, clock, around or PageHost()).add_to(app)
    _Answers(sources).add_to(app)
    return app


def _is_for_programs(request: Request) -> bool:
    """Whether an address answers in JSON, also if it refuses, whatever the client accepts."""
    path = request.url.path
    return path.endswith("/stream") or any(part in path for part in ("/api/", "/schema/", "/token/"))


def _store(sources: Sources, source: str) -> sa.Engine:
    engine = sources.store(source)
    if engine is None or SchemaStore(engine).position(source) is None:
        raise UnknownSourceError(
            "nothing has been tracked yet", source=source, remedy=f"Run `strata run --source {source}`."
        )
    return engine


class _Pages:
    """For people."""

    def __init__(self, sources: Sources, clock: Callable[[], int], around: PageHost) -> None:
        self._sources = sources
        self._clock = clock
        self._around = around
        self._costly = CostlyPages()
        self._templates = make_environment()

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes. Files are served by a route, since a mounted folder has no dependencies, and so no guard."""
        app.exception_handler(StrataError)(self.refuse)
        app.exception_handler(ImportError)(self.refuse_import)
        # A path and a method that there are not come from Starlette, whose errors are others than FastAPI's.
        for refused in (HTTPException, 404, 405):
            app.exception_handler(refused)(self.refuse_request)
        app.exception_handler(RequestValidationError)(self.refuse_parameters)
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
            ("/airflow", self.airflow),
            ("/rows", self.rows),
            ("/row", self.row),
            ("/undo", self.undo),
            ("/verdicts", self.verdicts),
            ("/verdict", self.verdict),
        ):
            # With HEAD, which `curl --head` and uptime monitors send.
            app.add_api_route(
                path,
                endpoint,
                methods=["GET", "HEAD"],
                response_class=HTMLResponse,
                include_in_schema=False,
                dependencies=[Depends(refuse_repeated)],
            )

    def run(self, dag_id: _Id, run_id: _Id, map_index: _MapIndex = "") -> HTMLResponse:
        """What changed in the span of a run of Airflow's, or of one source's tasks in it."""
        find = self._around.find_runs
        mapped = int(map_index) if _MAP_INDEX.fullmatch(map_index) else None
        planned = find(dag_id, run_id, mapped) if find is not None else None
        if planned is None:
            raise Usage(f"there is no run {run_id!r} of {dag_id!r}")
        return self._show("run.html", run_id=run_id, found=run_changes(self._sources, planned))

    def airflow(self, source: _Source, run: _Id, to: Annotated[Literal["run", "log"], Query()] = "run") -> Any:
        """From a run of ours to Airflow's page of it, or of what its last task has logged."""
        find = self._around.find_task
        task = find(run) if find is not None else None
        if task is None:
            raise Usage(
                "no run of this Airflow's planned it: a command did, or Airflow has deleted its records",
                source=source,
                remedy=f"`strata intervals --source {source}` lists what it has done.",
            )
        return RedirectResponse(f"../{task.path_of_log if to == 'log' else task.path}", 303)

    def _show(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        template = self._templates.get_template(name)
        given = {"now": self._clock(), "kind_of": kind_of, "around": self._around}
        return HTMLResponse(template.render(**given, **values), status)

    async def refuse(self, request: Request, error: StrataError) -> HTMLResponse | JSONResponse:
        """An error of ours as an answer: what happened, and what to run next."""
        status = 400 if isinstance(error, Usage) else 503 if isinstance(error, Transient) else 404
        return self._refused(request, error, status)

    async def refuse_parameters(self, request: Request, error: RequestValidationError) -> HTMLResponse | JSONResponse:
        """Parameters that are missing, or of another type than their route takes; programs also get the list of
        FastAPI's own answer, without the values: a body's may be NaN or half a surrogate pair, which JSON cannot
        have."""
        detail = [{name: fact for name, fact in fault.items() if name != "input"} for fault in error.errors()]
        return self._refused(request, refused_parameters(error.errors()), 422, detail=jsonable_encoder(detail))

    def _refused(self, request: Request, error: StrataError, status: int, **more: Any) -> HTMLResponse | JSONResponse:
        accepted = request.headers.get("accept", "")
        wants_json = "application/json" in accepted and "text/html" not in accepted
        if wants_json or _is_for_programs(request):
            return JSONResponse(to_plain(error.facts()) | more, status)
        return self._show("error.html", status, error=error)

    async def refuse_import(self, request: Request, error: ImportError) -> HTMLResponse | JSONResponse:
        """What needs a package that is not installed."""
        missing = missing_extra(error)
        if missing is None:
            raise error
        return await self.refuse(request, missing)

    async def refuse_request(self, request: Request, error: HTTPException) -> Any:
        """Who must not read, or asks for what is not there: a page for a browser, JSON for programs."""
        if _is_for_programs(request) or "text/html" not in request.headers.get("accept", ""):
            return await http_exception_handler(request, error)
        answer = self._show("error.html", error.status_code, error=Usage(str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer

    def overview(self) -> HTMLResponse:
        """The sources."""
        views = overview(self._sources, self._around.numbers)
        return self._show("overview.html", views=views)

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
        request = TablePageRequest(at.strip(), before, after, older_than)
        engine, configured = _store(self._sources, source), self._sources.find(source)
        view = table_view(engine, configured, TableName(database, table), request)
        status, shown = 400 if isinstance(view.at.refusal, Usage) else 200, {"source": source, "wanted": request}
        shown |= {"view": view, "shows_rows": self._shows_rows(), "forms": point_forms(configured)}
        # Where no rows are shown, nothing is to load what reads them.
        ordinals = [change.entry.seq for change in view.versions] if self._shows_rows() else []
        shown |= {"is_sink": configured.is_sink, "commits": commit_timestamps(configured, ordinals)}
        return self._show("table.html", status, **shown)

    def _shows_rows(self) -> bool:
        return not self._around.asks_for_rows or self._sources.rows_in_airflow()

    def _require_rows(self) -> None:
        if not self._shows_rows():
            raise Usage(
                "the page shows no rows here",
                remedy="With `rows_in_airflow = true` at the top of the settings, it shows them to all who may see "
                "plugins. The commands `row` and `sql` show them to those who may read the lake.",
            )

    def rows(
        self, source: _Source, database: _Database, table: _Table, where: _Where = "", at: _At = ""
    ) -> HTMLResponse:
        """Rows of a table at a moment."""
        self._require_rows()
        name, request = TableName(database, table), {"where": where.strip(), "at": at.strip()}
        engine, configured = _store(self._sources, source), self._sources.find(source)
        view, refusal, status = None, None, 200
        try:
            with self._costly.making(source):
                view = rows_at(configured, engine, name, request["where"], request["at"])
        except (Usage, BadData) as error:
            refusal, status = error, 400 if isinstance(error, Usage) else 404
        shown = {"source": source, "table": name, "wanted": request, "forms": moment_forms(configured)}
        return self._show("rows.html", status, view=view, refusal=refusal, **shown)

    def row(self, source: _Source, database: _Database, table: _Table, key: _Key = None, at: _At = "") -> HTMLResponse:
        """One row through time."""
        self._require_rows()
        name, engine = TableName(database, table), _store(self._sources, source)
        given, configured = [] if key is None else key, self._sources.find(source)
        with self._costly.making(source):
            view = row_view(configured, engine, name, given, at.strip())
            commits = commit_timestamps(configured, (line.seq for line in view.lines if line.committed_at))
        status = 404 if view.refusal is not None and not view.lines else 200
        shown = {"source": source, "table": name, "at": at.strip(), "forms": moment_forms(configured)}
        return self._show("row.html", status, view=view, commits=commits, **shown)

    def undo(self, source: _Source, database: _Database, table: _Table, gtid: _Text, key: _Key = None) -> HTMLResponse:
        """The SQL that takes a transaction's changes of a row back."""
        self._require_rows()
        name, engine = TableName(database, table), _store(self._sources, source)
        given = [] if key is None else key
        with self._costly.making(source):
            view = undo_view(self._sources.find(source), engine, name, gtid.strip(), given)
        return self._show("undo.html", source=source, table=name, gtid=gtid, key=given, view=view)

    def search(self, source: _Source, text: _Text = "") -> HTMLResponse:
        """Search over a source's history."""
        hit = search(_store(self._sources, source), source, text.strip()) if text.strip() else None
        return self._show("search.html", source=source, text=text, found=hit)

    def verdicts(
        self,
        source: _Source,
        before: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
        unsound: Annotated[bool, Query()] = False,  # noqa: FBT002  a field of the address
    ) -> HTMLResponse:
        """The intervals of a source that were checked."""
        view = verdicts_view(_store(self._sources, source), source, before, unsound=unsound)
        return self._show("verdicts.html", source=source, unsound=unsound, view=view)

    def verdict(self, source: _Source, start: _Micros, offset: _Offset = 0) -> HTMLResponse:
        """What was found in one of them."""
        view = verdict_view(_store(self._sources, source), source, start, offset)
        return self._show("verdict.html", source=source, view=view)


class _Answers:
    """For programs: the lines of `strata schema`, as JSON."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes."""
        for path, endpoint, tag in (
            ("/api/sources", self.sources, "schema"),
            ("/api/schema", self.schema, "schema"),
            ("/api/history", self.history, "schema"),
            ("/api/verdict", self.verdict, "checks"),
        ):
            app.add_api_route(path, endpoint, tags=[tag], dependencies=[Depends(refuse_repeated)])
        for path, endpoint in (("/schema/show", self.schema), ("/schema/history", self.history)):
            app.add_api_route(path, endpoint, include_in_schema=False, dependencies=[Depends(refuse_repeated)])

    def sources(self) -> JSONResponse:
        """Names of the sources."""
        return JSONResponse(self._sources.names())

    def schema(self, source: _Source, database: _Database, table: _Table, at: _At = "") -> JSONResponse:
        """A table at a point, as a line of `strata schema show`."""
        store = SchemaStore(_store(self._sources, source))
        history = History(store, source)
        tables = tables_at(history, position_at(history, self._sources.find(source), at), TableName(database, table))
        return JSONResponse(next(to_plain(line) for line in tables.lines()))

    def history(self, source: _Source, database: _Database, table: _Table) -> JSONResponse:
        """The changes of a table, as lines of `strata schema history`; the newest thousand."""
        store = SchemaStore(_store(self._sources, source))
        listed = [change.line() for change in changes(store, source, TableName(database, table))]
        return JSONResponse([to_plain(line) for line in listed[-_MOST_LINES:]])

    def verdict(self, source: _Source, start: _Micros) -> JSONResponse:
        """What the checks found in one interval, table by table, as the store has it."""
        engine = _store(self._sources, source)
        interval = IntervalLedger(engine).at(source, start)
        verdicts = VerdictLedger(engine).select(source, [start if interval is None else interval.start])
        return JSONResponse([to_plain(verdict) for verdict in verdicts])
