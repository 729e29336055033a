"""Connections to MySQL: the address, TLS, and failures as errors of ours.
Not here: the replication protocol (`replication.py`), what is asked over a connection (`schema/engine.py`, `jobs/`)."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from strata.errors import (
    AccessDeniedError,
    SettingsError,
    SourceSettingsError,
    SourceUnavailableError,
    StrataError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

DEFAULT_PORT = 3306
CONNECT_SECONDS = 10

_FORM = "mysql://USER:PASSWORD@HOST:PORT/"
_NO_ACCESS = frozenset({1044, 1045, 1095, 1142, 1143, 1227, 1396, 1698, 1862, 3118, 3159, 3955})
"""Wrong password, expired or locked account, missing grant; 3159 is "TLS required" (share/messages_to_clients.txt)."""
_TLS_FAILED = 2026


class TlsMode(StrEnum):
    """How a connection is protected; the names are those of MySQL's `--ssl-mode`."""

    DISABLED = "DISABLED"
    PREFERRED = "PREFERRED"
    REQUIRED = "REQUIRED"
    VERIFY_CA = "VERIFY_CA"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"


class Compression(StrEnum):
    """What becomes of the bytes between here and the server; the names are those of MySQL."""

    UNCOMPRESSED = "uncompressed"
    ZLIB = "zlib"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is and how to log in."""

    host: str
    port: int = DEFAULT_PORT
    user: str = "root"
    password: str = field(default="", repr=False)
    database: str | None = None
    tls: TlsMode = TlsMode.PREFERRED
    tls_ca: str | None = None
    """File with the certificates that are trusted."""
    tls_cert: str | None = None
    """File with the certificate that this side shows, where the server asks for one."""
    tls_key: str | None = None
    """File with its key."""
    compression: Compression = Compression.UNCOMPRESSED

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Reads `mysql://USER:PASSWORD@HOST:PORT/DATABASE?ssl_mode=REQUIRED&ssl_ca=FILE`.

        Raises:
            SettingsError: The text has another form. The message never quotes it: it may hold a password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORT
        except ValueError:
            raise SettingsError("the URL of a server has no readable port", remedy=f"Write {_FORM}.") from None
        if parts.scheme.split("+")[0] != "mysql" or not parts.hostname:
            raise SettingsError("the URL of a server is not that of a MySQL server", remedy=f"Write {_FORM}.")
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        mode = options.get("ssl_mode", TlsMode.VERIFY_CA if "ssl_ca" in options else TlsMode.PREFERRED).upper()
        if mode not in set(TlsMode):
            raise SettingsError(f"ssl_mode {mode} is not known; there are: {', '.join(TlsMode)}")
        compression = options.get("compression", Compression.UNCOMPRESSED).lower()
        if compression not in set(Compression):
            raise SettingsError(f"compression {compression} is not known; there are: {', '.join(Compression)}")
        return cls(
            host=parts.hostname,
            port=port,
            user=unquote(parts.username) if parts.username else "root",
            password=unquote(parts.password) if parts.password else "",
            database=unquote(parts.path.strip("/")) or None,
            tls=TlsMode(mode),
            tls_ca=options.get("ssl_ca"),
            tls_cert=options.get("ssl_cert"),
            tls_key=options.get("ssl_key"),
            compression=Compression(compression),
        )

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def connect(address: ServerAddress, *, read_seconds: float | None = None) -> pymysql.Connection[Any]:
    """A new connection in autocommit mode.

    Args:
        address: Where to.
        read_seconds: How long an answer may take; None for any time.

    Raises:
        AccessDeniedError: Wrong user or password, or TLS is required.
        SourceUnavailableError: The server does not answer.
        SourceSettingsError: TLS or compression was asked for and cannot be had.
    """
    import pymysql  # noqa: PLC0415 - the settings import the address, and stay light

    kind = pymysql.Connection
    if address.compression is not Compression.UNCOMPRESSED:
        from strata.wire.compression import CONNECTIONS  # noqa: PLC0415 - as above

        kind = CONNECTIONS[address.compression]
    with server_errors(address):
        return kind(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            program_name="strata",
            **_tls_options(address),
        )


def _tls_options(address: ServerAddress) -> dict[str, Any]:
    if address.tls == TlsMode.DISABLED:
        return {"ssl_disabled": True}
    if address.tls == TlsMode.PREFERRED:
        # PyMySQL's own default: TLS where the server has it, its certificate unchecked.
        return {}
    for option, path in (("ssl_ca", address.tls_ca), ("ssl_cert", address.tls_cert), ("ssl_key", address.tls_key)):
        if path and not Path(path).is_file():
            raise SettingsError(f"{option} of a server's URL names {path}, which is no file here")
    tls: dict[str, Any] = {
        "ca": address.tls_ca,
        "verify_mode": address.tls != TlsMode.REQUIRED,
        "check_hostname": address.tls == TlsMode.VERIFY_IDENTITY,
    }
    if address.tls_cert:
        tls |= {"cert": address.tls_cert, "key": address.tls_key}
    return {"ssl": tls}


@contextmanager
def server_errors(address: ServerAddress) -> Iterator[None]:
    """Turns PyMySQL's errors and those of the socket into ours."""
    import pymysql  # noqa: PLC0415 - as in connect

    try:
        yield
    except pymysql.err.MySQLError as error:
        raise as_strata_error(error, address) from error
    except OSError as error:
        raise SourceUnavailableError(f"the connection to {address} broke: {error}") from error


def as_strata_error(error: Exception, address: ServerAddress) -> StrataError:
    """Our error for one of PyMySQL's."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    if code in _NO_ACCESS:
        return AccessDeniedError(
            f"{address} was refused: {text} ({code})",
            remedy="Check user and password of the connection, and run `strata doctor` for the grants that it needs.",
        )
    if code == _TLS_FAILED or isinstance(getattr(error, "original_exception", None), ssl.SSLError):
        return SourceSettingsError(
            f"{address} does not speak TLS as asked for: {text}",
            remedy="Check `ssl_mode` and `ssl_ca` in the connection's URL, and the certificates of the server.",
        )
    return SourceUnavailableError(
        f"{address} does not answer as it should: {text}" + (f" ({code})" if code else ""),
        remedy="Check that the server runs and can be reached from here, then run the same again.",
    )
