"""Server-sent events as an answer, and errors as JSON.
Not here: what is in the events (`reader.py`)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi.responses import JSONResponse, Response

from strata_cdc.errors import (
    BinlogPurgedError,
    IncomparableTokensError,
    StrataError,
    Transient,
    UnknownSourceError,
    Usage,
)
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

    from strata_cdc.serve.streaming.reader import HttpReader

_STATUS: Final[tuple[tuple[type[StrataError], int], ...]] = (
    (UnknownSourceError, 404),
    (IncomparableTokensError, 409),
    (Usage, 400),
    (BinlogPurgedError, 410),
    (Transient, 503),
    (StrataError, 409),
)
_RETRY_SECONDS: Final = 5


def facts_of(error: StrataError) -> dict[str, Any]:
    """What is known of an error; of a position that is nowhere any more also the earliest that can be had."""
    facts: dict[str, Any] = to_plain(error.facts())
    if isinstance(error, BinlogPurgedError):
        facts["earliest"] = error.earliest
    return facts


def refusal(error: StrataError) -> JSONResponse:
    """An error instead of an answer: 400 a request that means nothing (a damaged token, one of another source), 404 an
    unknown source, 409 a position of another history, 410 one that is nowhere any more, 503 what may help later."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    headers = {"Retry-After": str(_RETRY_SECONDS)} if status == 503 else None
    return JSONResponse(facts_of(error), status, headers)


class OpenStreams:
    """The answers that are being sent, so that they can be ended together when the server ends."""

    def __init__(self) -> None:
        """None yet."""
        self._ends: set[asyncio.Event] = set()

    @contextmanager
    def entered(self, *, is_endless: bool) -> Iterator[asyncio.Event]:
        """While an answer is sent; the event is set when it has to end.

        That of a stream with an end is never set: for its reader, an answer that is whole has all up to that end.
        """
        end = asyncio.Event()
        if is_endless:
            self._ends.add(end)
        try:
            yield end
        finally:
            self._ends.discard(end)

    def end(self) -> None:
        """Ends each after the event that it is sending; its reader comes again with the last token. Called by the event
        loop."""
        for end in self._ends:
            end.set()


class EventStream(Response):
    """The events of one reader. When it goes away, or is too slow to be there, everything is freed."""

    media_type = "text/event-stream"

    def __init__(self, reader: HttpReader, open_streams: OpenStreams) -> None:
        """Takes a reader that has been opened."""
        super().__init__()
        self._reader, self._open = reader, open_streams
        # Proxies keep back what they take for a file (nginx, `proxy_buffering`).
        self.init_headers({"X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until there is no more, or nobody reads."""
        del scope
        with self._open.entered(is_endless=self._reader.is_endless) as end:
            waits = self._send(send), _until_gone(receive), end.wait()
            tasks = {asyncio.ensure_future(wait) for wait in waits}
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._reader.close()
        if end.is_set():
            await _send_end(send)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        # A blank comment: a client that waits for the first byte sees that the stream is there.
        await _send_some(send, b"retry: %d\n:\n\n" % (1000 * _RETRY_SECONDS))
        try:
            async for data in self._reader.messages():
                await _send_some(send, data)
        except StrataError as error:
            await _send_some(send, b"event: fault\ndata: %b\n\n" % msgspec.json.encode(facts_of(error)))
        await _send_end(send)


async def _send_end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b""})


async def _send_some(send: Send, data: bytes) -> None:
    """It returns when the connection has taken it: this is what makes a slow reader wait alone."""
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    with suppress(OSError):
        while (await receive())["type"] != "http.disconnect":
            pass
