"""The headers of every answer: with them a browser runs nothing but our own files, whatever the names in a binlog are.
Not here: access (`app.py` gets a guard)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
