"""The client of MySQL's protocol, as PyMySQL has it, made to distrust the server.
Not here: which server, TLS and Strata's errors (`connection.py`), the compressed protocol (`compression.py`)."""

from __future__ import annotations

import ssl
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CR
from pymysql.err import OperationalError

from strata_cdc.binlog.protocol.session import set_session

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.protocol.limits import ServerLimits

_REVEALING = (b"mysql_clear_password", b"dialog", b"mysql_old_password")
"""Ways to log in that show a listener the password itself, or something from which it can be computed."""
_MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    struct.error,
)
"""What PyMySQL raises, besides its own errors, if an answer has an unexpected form."""


class Client(pymysql.Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection that sends no file of this machine and no password in clear, and accepts no endless answer.

    Everything that a server does wrong is an error of PyMySQL.
    """

    may_reveal_password = False
    _read_timeout: float | None
    _login_until: float | None = None
    _answer_bytes = 0

    def __init__(self, *, limits: ServerLimits, **options: Any) -> None:
        """Connects."""
        self._limits = limits
        with _as_malformed(self):
            super().__init__(**options, connect_timeout=limits.connect_seconds, write_timeout=limits.write_seconds)

    def connect(self, sock: socket.socket | None = None) -> None:
        """Connects, logs in and sets the session; if the server is silent meanwhile, it is given up, even if
        its later answers may take longer."""
        answers, self._read_timeout = self._read_timeout, self._limits.connect_seconds
        self._login_until = time.monotonic() + self._limits.login_seconds
        with _as_malformed(self):
            super().connect(sock)
            self._prepare()
        self._read_timeout, self._login_until = answers, None

    def _prepare(self) -> None:
        try:
            set_session(self)
        except BaseException:
            self._force_close()
            raise

    def _create_ssl_ctx(self, sslp: Mapping[str, Any]) -> ssl.SSLContext:
        if sslp.get("ca") or sslp.get("verify_mode"):
            context: ssl.SSLContext = super()._create_ssl_ctx(sslp)
            return context
        # PyMySQL would load the certificates of this machine, 35 ms of CPU, and use them for no check.
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        if "cert" in sslp:
            unchecked.load_cert_chain(sslp["cert"], sslp.get("key"))
        return unchecked

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        self._answer_bytes = 0
        super()._execute_command(command, sql)

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._answer_bytes += num_bytes
        if self._answer_bytes > self._limits.answer_bytes:
            self._force_close()
            message = f"an answer has more than {self._limits.answer_bytes} bytes"
            raise OperationalError(CR.CR_NET_PACKET_TOO_LARGE, message)
        if self._login_until is not None and time.monotonic() > self._login_until:
            self._force_close()
            raise OperationalError(CR.CR_SERVER_LOST, f"logging in took more than {self._limits.login_seconds} s")
        data: bytes = super()._read_bytes(num_bytes)
        return data

    def _read_query_result(self, unbuffered: bool = False) -> int:  # noqa: FBT001, FBT002 - PyMySQL's own signature
        with _as_malformed(self):
            count: int = super()._read_query_result(unbuffered)
            return count

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, *handler: Any) -> Any:
        # A handler from PyMySQL 1.2 on.
        if plugin_name in _REVEALING and not self._secure and not self.may_reveal_password:
            raise OperationalError(
                CR.CR_AUTH_PLUGIN_ERR,
                f"the server asks for the password by {plugin_name.decode()}, over a connection without TLS",
            )
        return super()._process_auth(plugin_name, auth_packet, *handler)


class TrustingClient(Client):
    """A connection whose user allows the password in clear."""

    may_reveal_password = True


@contextmanager
def _as_malformed(client: Client) -> Iterator[None]:
    """Turns errors of an answer with an unexpected form into PyMySQL's own error; such a connection cannot be used
    again."""
    try:
        yield
    except _MALFORMED as error:
        client._force_close()  # noqa: SLF001 - `close` would talk to the server
        text = str(error)
        if "LOAD_LOCAL" in text:
            message = "the server asks for a file of this machine (LOAD DATA LOCAL), and gets none"
            raise OperationalError(CR.CR_MALFORMED_PACKET, message) from error
        raise OperationalError(
            CR.CR_MALFORMED_PACKET, f"an answer that does not follow the protocol: {type(error).__name__} {text}"
        ) from error
