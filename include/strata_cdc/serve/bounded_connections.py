"""Bounds on connections that have not sent a request yet: uvicorn waits without end for the head of a request.
Not here: bounds on bodies (`bounded_bodies.py`); within Airflow its own web server keeps these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from strata_cdc.serve.limits import Limits

if TYPE_CHECKING:
    import asyncio


# Whichever of its two protocols uvicorn has found.
class BoundedConnections(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """One connection, closed where its next request's head is too long or too slow."""

    limits: ClassVar = Limits()
    """uvicorn makes the connections: a server with others has a subclass."""
    _waiting: Final[dict[BoundedConnections, asyncio.TimerHandle]] = {}
    """All connections without a whole head, oldest first, and what will close them."""

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._wait()

    def data_received(self, data: bytes) -> None:
        """It has sent something."""
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.limits.head_bytes:
            self._close(b"431 Request Header Fields Too Large")
        elif self not in self._waiting:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        """Whether a head has come whose answer has not gone yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if len(self._waiting) >= self.limits.most_waiting:
            next(iter(self._waiting))._close(b"503 Service Unavailable")  # noqa: SLF001  one of this class
        self._waiting[self] = self.loop.call_later(self.limits.head_seconds, self._close, b"408 Request Timeout")

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _close(self, status: bytes) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()
