"""Bounds on the bodies of requests, before access is checked: FastAPI reads a body before it calls the guard.
Not here: bounds on connections and heads (`bounded_connections.py`), which the web server has to keep."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fastapi import HTTPException
from fastapi.responses import JSONResponse

from strata_cdc.serve.limits import Limits

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BoundedBodies:
    """A middleware: answers 413 to a body that is too large, 408 to one that is too slow."""

    def __init__(self, app: ASGIApp, limits: Limits = Limits()) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _content_length(scope) > self._limits.body_bytes:
            # Nothing of it is read: the connection ends with the answer.
            answer = JSONResponse({"detail": _too_large(self._limits)}, 413, {"Connection": "close"})
            await answer(scope, receive, send)
        else:
            await self._app(scope, _BoundedMessages(receive, self._limits), send)


class _BoundedMessages:
    """Gives the messages of a request while its body keeps the bounds; what follows the body waits as long as it
    likes."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive, self._limits = receive, limits
        self._bytes = 0
        self._until: float | None = asyncio.get_running_loop().time() + limits.body_seconds

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            reason = f"the body took longer than {self._limits.body_seconds:g} seconds"
            raise HTTPException(408, reason, _CLOSE) from None
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._limits.body_bytes:
            raise HTTPException(413, _too_large(self._limits), _CLOSE)
        if not message.get("more_body", False):
            self._until = None
        return message


_CLOSE: Final = {"Connection": "close"}


def _too_large(limits: Limits) -> str:
    return f"a body may have {limits.body_bytes:,} bytes"


def _content_length(scope: Scope) -> int:
    """The length that the head declares; 0 if it declares none, or not in ASCII digits."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    # More digits are no length of anything.
    return int(length) if length.isdigit() and len(length) < 20 else 0
