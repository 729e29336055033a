"""Strangers: what they send before they have signed in is bounded, and who has signed in is served meanwhile."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn

from strata_cdc.serve.bounded_connections import BoundedConnections
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.sources import Sources
from strata_cdc.serve.streaming.routes import add_streams
from tests.serve.conftest import TOKEN, app_of, served, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNED_IN = {"Authorization": f"Bearer {TOKEN}"}


IMPATIENT = Limits(head_seconds=1.0, most_waiting=20, body_seconds=1.0)


@pytest.fixture
def address(store) -> Iterator[str]:
    with listening(store, IMPATIENT) as address:
        yield address


@contextmanager
def listening(store, limits: Limits) -> Iterator[str]:
    class Connections(BoundedConnections):
        pass

    Connections.limits = limits
    app = app_of(lambda: settings_of(store), limits=limits)
    add_streams(app, Sources(lambda: settings_of(store)))
    with served(app, http=Connections, ws="none") as address:
        yield address


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    found = b""
    try:
        while data := connection.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass  # closed with bytes of ours unread
    return found


def is_served(address: str) -> bool:
    return httpx.get(f"{address}/api/sources", headers=SIGNED_IN, timeout=30).json() == ["s", "untouched"]


@pytest.mark.parametrize("headers", [{}, SIGNED_IN], ids=["a stranger", "a reader"])
def test_a_large_body_is_refused_by_its_length(address: str, headers: dict[str, str]) -> None:
    said = {**headers, "Content-Length": str(600 << 20)}
    with connected(address) as stranger:
        head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "x", **said}.items())
        stranger.sendall(f"POST /api/tokens/merge HTTP/1.1\r\n{head}\r\n".encode())
        assert all_of(stranger).startswith(b"HTTP/1.1 413 ")
    assert is_served(address)


def test_a_large_body_without_a_length_is_read_up_to_the_bound(address: str) -> None:
    sent = 0

    def body() -> Iterator[bytes]:
        nonlocal sent
        while sent < 600 << 20:
            sent += 1 << 16
            yield b" " * (1 << 16)

    try:
        answer = httpx.post(f"{address}/api/tokens/merge", content=body(), timeout=30)
    except httpx.WriteError:
        pass  # it has closed before all of it was sent
    else:
        assert answer.status_code == 413
    assert sent < 16 * IMPATIENT.body_bytes
    assert is_served(address)


def test_a_slow_body_ends(address: str) -> None:
    with connected(address) as stranger:
        stranger.sendall(b"POST /api/tokens/merge HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        assert all_of(stranger).startswith(b"HTTP/1.1 408 ")


def test_a_long_head_ends(address: str) -> None:
    with connected(address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            stranger.sendall(b"x" * (64 << 20))
        assert time.monotonic() - began < 10
    assert is_served(address)


def test_heads_of_what_tokens_need_are_taken(address: str) -> None:
    long = "x" * 90_000
    assert httpx.get(f"{address}/api/sources", headers={**SIGNED_IN, "Last-Event-ID": long}).status_code == 200
    assert IMPATIENT.head_bytes > 2 * 100_000


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a head"])
def test_half_a_request_ends(address: str, sent: bytes) -> None:
    with connected(address) as stranger:
        stranger.sendall(sent)
        assert all_of(stranger).startswith(b"HTTP/1.1 408 ")


def test_half_a_second_request_ends(address: str) -> None:
    with connected(address) as reader:
        whole = f"GET /api/sources HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        reader.sendall(whole)
        assert reader.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        reader.sendall(b"GET / HT")
        assert b"HTTP/1.1 408 " in all_of(reader)


def test_many_half_requests_keep_nobody_out(store) -> None:
    with listening(store, replace(IMPATIENT, head_seconds=600.0)) as address, ExitStack() as strangers:
        half = [strangers.enter_context(connected(address)) for _ in range(60)]
        for one in half:
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert is_served(address)
        # The oldest had to go.
        assert all_of(half[0]).startswith(b"HTTP/1.1 503 ")


def test_they_are_the_bounds_of_the_command() -> None:
    config = uvicorn.Config(lambda: None, http=BoundedConnections, ws="none")
    config.load()
    assert config.http_protocol_class is BoundedConnections
