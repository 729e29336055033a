"""The addresses of streams and tokens.
Not here: a reader (`reader.py`), what tokens mean (`position/token.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Body, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse

from strata_cdc.errors import StrataError, Usage
from strata_cdc.position.token import merge
from strata_cdc.position.token_shown import shown
from strata_cdc.position.token_text import from_text, to_text
from strata_cdc.schema.model.patterns import require_matchable
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.streaming.answer import EventStream, OpenStreams, refusal
from strata_cdc.serve.streaming.reader import HttpReader, SharedSource
from strata_cdc.serve.streaming.wishes import Wish
from strata_cdc.streams.positions import parse_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from strata_cdc.serve.sources import Sources

HEARTBEAT_SECONDS: Final = 10.0
_TOKEN_CHARACTERS: Final = 100_000

_From = Annotated[
    str,
    Query(
        alias="from",
        max_length=_TOKEN_CHARACTERS,
        description="now, beginning, landed, a token, a GTID set, a time (UTC) or FILE:OFFSET: the stream begins "
        "after it.",
    ),
]
_Until = Annotated[
    str,
    Query(max_length=_TOKEN_CHARACTERS, description="Likewise; a time is exclusive. Without it the stream goes on."),
]
_Tables = Annotated[list[str], Query(max_length=1000, description="Patterns of database.table; none for all.")]
_Columns = Annotated[str, Query(max_length=100_000, description="Names of columns, as in id,state; none for all.")]
_Heartbeat = Annotated[
    float,
    # NaN would be greater than the most that there is.
    Query(ge=0.1, le=60, allow_inf_nan=False, description="Seconds without a line before there is a heartbeat."),
]
_LastId = Annotated[str, Header(max_length=_TOKEN_CHARACTERS, description="The last token: it counts more than from.")]
_Token = Annotated[str, Query(max_length=_TOKEN_CHARACTERS, description="An event token.")]
_Bound = Annotated[
    float | None,
    Query(
        ge=0,
        le=1e9,
        allow_inf_nan=False,
        description="Seconds by which servers' clocks may differ; else as in the settings.",
    ),
]

_PARAMETERS: Final = ("from", "until", "table", "columns", "heartbeat")
_STREAM_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Server-sent events; `data` is a line of `strata stream`, `id` its token. An event `fault` says "
        "why there is no more.",
    },
    204: {"description": "All up to `until` has been given: do not come again."},
    400: {"description": "A token that is damaged, or of another source; a position or a parameter that is none."},
    404: {"description": "The settings have no such source."},
    409: {"description": "A position of another history; rows that cannot be decoded."},
    410: {
        "description": "The position is no longer stored anywhere; `earliest` is the first that can still be read, in "
        "the form that `from` takes."
    },
    503: {"description": "The server, the store or the lake does not answer, or too many readers are catching up."},
}


def add_streams(app: FastAPI, sources: Sources, limits: Limits = Limits()) -> OpenStreams:
    """Adds the routes; the application's guard runs before them, too. Returns what ends the streams."""
    open_streams = OpenStreams()
    _Streams(sources, limits, open_streams).add_to(app)
    for name, endpoint in (
        ("show", show_token),
        ("compare", _Comparing(sources).compare_tokens),
        ("merge", merge_tokens),
    ):
        app.add_api_route(f"/api/tokens/{name}", endpoint, tags=["tokens"])
        app.add_api_route(f"/token/{name}", endpoint, include_in_schema=False)
    app.add_api_route("/api/tokens/merge", merge_many, methods=["POST"], tags=["tokens"])
    return open_streams


def refuse_unknown(request: Request) -> None:
    """Refuses parameters that would be passed over: a misspelt `table` would give all tables.

    Raises:
        Usage: A stream has no such parameter, or takes it once.
    """
    names = [name for name, _ in request.query_params.multi_items()]
    parameters = _PARAMETERS if "source" in request.path_params else ("source", *_PARAMETERS)
    for name in names:
        if name not in parameters:
            raise Usage(f"a stream has no parameter {name!r}", remedy=f"It has {', '.join(parameters)}.")
        if name != "table" and names.count(name) > 1:
            raise Usage(f"the parameter {name!r} is given more than once")


class _Streams:
    def __init__(self, sources: Sources, limits: Limits, open_streams: OpenStreams) -> None:
        self._sources, self._limits, self._open = sources, limits, open_streams
        self._shared: dict[str, SharedSource] = {}

    def add_to(self, app: FastAPI) -> None:
        for path, is_listed in (("/api/streams/{source}", True), ("/stream", False)):
            app.add_api_route(
                path,
                self.stream,
                tags=["streams"],
                responses=_STREAM_ANSWERS,
                response_class=Response,
                include_in_schema=is_listed,
                dependencies=[Depends(refuse_unknown)],
            )

    async def stream(
        self,
        source: str,
        start: _From = "now",
        until: _Until = "",
        table: _Tables = [],  # noqa: B006  FastAPI copies it
        columns: _Columns = "",
        heartbeat: _Heartbeat = HEARTBEAT_SECONDS,
        last_event_id: _LastId = "",
    ) -> Response:
        """Each change of a source as it happens, as server-sent events. Requested again with `Last-Event-ID`, it
        continues after that line: nothing is lost, nothing comes twice."""
        reader = None
        try:
            shared = self._of(source)
            require_matchable(table)
            configured = shared.source
            read = partial(parse_bound, source=configured.name, lineage=configured.lineage, is_sink=configured.is_sink)
            names = tuple(sorted({name.strip().casefold() for name in columns.split(",") if name.strip()}))
            reader = HttpReader(
                shared,
                read(last_event_id or start),
                Wish(tuple(sorted(set(table))), names or None),
                until=read(until) if until else None,
                heartbeat_seconds=heartbeat,
            )
            if not await reader.open():
                reader.close()
                return Response(status_code=204)
        except StrataError as error:
            if reader is not None:
                reader.close()
            return refusal(error)
        except BaseException:
            if reader is not None:
                reader.close()
            raise
        return EventStream(reader, self._open)

    def _of(self, name: str) -> SharedSource:
        """The readers of a source; settings that have changed are those of its next readers."""
        source = self._sources.find(name)
        known = self._shared.get(name)
        if known is None or known.source != source:
            known = self._shared[name] = SharedSource(source, self._limits)
        return known


def _answered(answer: Callable[[], Any]) -> JSONResponse:
    try:
        return JSONResponse(answer())
    except StrataError as error:
        return refusal(error)


def show_token(token: _Token) -> JSONResponse:
    """What is in a token, source by source, as `strata token show` prints it."""
    return _answered(lambda: [shown(position) for position in from_text(token).positions])


class _Comparing:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def compare_tokens(self, a: _Token, b: _Token, clock_bound: _Bound = None) -> JSONResponse:
        """How `a` lies to `b`: before, after, equal or unknown. Treat unknown as "not fresh enough"."""
        return _answered(lambda: {"order": from_text(a).compare(from_text(b), clock_bound=self._bound(clock_bound))})

    def _bound(self, seconds: float | None) -> int | None:
        """Microseconds; those of the settings by default."""
        return self._sources.clock_bound() if seconds is None else int(seconds * 1_000_000)


def merge_tokens(token: Annotated[list[str], Query(max_length=1000)]) -> JSONResponse:
    """The least token that is at or after all of these; 409 for tokens of two histories."""
    return _answered(lambda: {"token": to_text(merge(map(from_text, token)))})


def merge_many(tokens: Annotated[list[str], Body(embed=True, max_length=10_000)]) -> JSONResponse:
    """The same for more tokens than fit into an address."""
    return _answered(lambda: {"token": to_text(merge(map(from_text, tokens)))})
