"""Connections to MySQL: the address, TLS, and failures as Strata's errors. All connections are made here.
Not here: what the client refuses of a server (`client.py`), the replication protocol (`replication.py`), queries over
a connection (`store/database.py`, `schema/live/engine.py`, `pipeline/`)."""

from __future__ import annotations

import os
import shlex
import ssl
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from strata_cdc.binlog.protocol.limits import ServerLimits
from strata_cdc.errors import (
    AccessDeniedError,
    SettingsError,
    SourceSettingsError,
    SourceUnavailableError,
    StrataError,
    one_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pymysql

    from strata_cdc.binlog.protocol.client import Client

DEFAULT_PORT = 3306

_FORM = "mysql://USER:PASSWORD@HOST:PORT/"
_ENCODE = (
    f"Write {_FORM}; in user and password write @ as %40, : as %3A, / as %2F, # as %23, ? as %3F and % as %25, as "
    "Python's urllib.parse.quote(PASSWORD, safe='') does."
)
_NO_GRANT = frozenset({1044, 1095, 1142, 1143, 1227})
"""The account is in order, and lacks a grant (share/messages_to_clients.txt)."""
_NO_ACCESS = frozenset({1045, 1396, 1698, 1862, 3118, 3159, 3955})
"""Wrong password, expired or locked account; 3159 is "TLS required" (share/messages_to_clients.txt)."""
_TLS_FAILED = 2026
_CLEAR_PASSWORD = 2061
"""CR_AUTH_PLUGIN_ERR: the client refused what the server requested (`client.py`)."""
ODD_ANSWERS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""What is raised by reading an answer in a form that no server sends."""
_OPTIONS = ("ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "compression", "enable_cleartext_plugin")
_SWITCH = {"true": True, "1": True, "false": False, "0": False}


class TlsMode(StrEnum):
    """How a connection is protected; the names are those of MySQL's `--ssl-mode`."""

    DISABLED = "DISABLED"
    PREFERRED = "PREFERRED"
    REQUIRED = "REQUIRED"
    VERIFY_CA = "VERIFY_CA"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"


class ProtocolCompression(StrEnum):
    """How the bytes between here and the server are compressed; the names are those of MySQL."""

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
    """File with the certificate of this side, if the server requests one."""
    tls_key: str | None = None
    """File with the key of that certificate."""
    compression: ProtocolCompression = ProtocolCompression.UNCOMPRESSED
    password_command: str | None = field(default=None, repr=False)
    """What prints the password, run for each connection: a token that is valid for some minutes, for example."""
    enable_cleartext_plugin: bool = False
    """Whether a server may get the password in clear (`mysql_clear_password`) over a connection without TLS."""
    limits: ServerLimits = ServerLimits()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Reads `mysql://USER:PASSWORD@HOST:PORT/DATABASE?ssl_mode=REQUIRED&ssl_ca=FILE`.

        An option that is not known is an error: it may be a misspelt one that protects the connection.

        Raises:
            SettingsError: The text has another form. The message never quotes the text: it may hold a password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORT
        except ValueError:
            raise SettingsError("the URL of a server has no readable port", remedy=_ENCODE) from None
        if "#" in url or "@" in parts.path or "@" in parts.query:
            # A character of a password has ended what names user, password and host.
            raise SettingsError("the URL of a server has a @ after its host, or a #", remedy=_ENCODE)
        if parts.scheme.split("+")[0] != "mysql" or not parts.hostname:
            raise SettingsError("the URL of a server is not that of a MySQL server", remedy=f"Write {_FORM}.")
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        # SQLAlchemy's URLs often have it; no other driver is possible here.
        options.pop("charset", None)
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown:
            raise SettingsError(
                f"{', '.join(unknown)}: no option of a server's URL",
                remedy=f"There are: {', '.join(_OPTIONS)}; docs/settings.md explains them.",
            )
        mode = options.get("ssl_mode", TlsMode.VERIFY_CA if "ssl_ca" in options else TlsMode.PREFERRED).upper()
        compression = options.get("compression", ProtocolCompression.UNCOMPRESSED).lower()
        clear = options.get("enable_cleartext_plugin", "false").lower()
        for name, value, known in (
            ("ssl_mode", mode, tuple(TlsMode)),
            ("compression", compression, tuple(ProtocolCompression)),
            ("enable_cleartext_plugin", clear, tuple(_SWITCH)),
        ):
            if value not in known:
                raise SettingsError(f"{name} {value} is not known; there are: {', '.join(known)}")
        return cls(
            host=_host_of(parts.hostname),
            port=port,
            user=unquote(parts.username) if parts.username else "root",
            password=unquote(parts.password) if parts.password else "",
            database=unquote(parts.path.strip("/")) or None,
            tls=TlsMode(mode),
            tls_ca=options.get("ssl_ca"),
            tls_cert=options.get("ssl_cert"),
            tls_key=options.get("ssl_key"),
            compression=ProtocolCompression(compression),
            enable_cleartext_plugin=_SWITCH[clear],
        )

    def to_url(self, database: str) -> str:
        """The URL of a database on the same server, reached in the same way; it holds the password."""
        login = quote(self.user, safe="") + (":" + quote(self.password, safe="") if self.password else "")
        host = quote(self.host, safe=":")
        host = f"[{host}]" if ":" in self.host else host
        options = {
            "ssl_mode": self.tls if self.tls_ca or self.tls is not TlsMode.PREFERRED else None,
            "ssl_ca": self.tls_ca,
            "ssl_cert": self.tls_cert,
            "ssl_key": self.tls_key,
            "compression": self.compression if self.compression is not ProtocolCompression.UNCOMPRESSED else None,
            "enable_cleartext_plugin": "true" if self.enable_cleartext_plugin else None,
        }
        query = urlencode({name: value for name, value in options.items() if value})
        address = f"mysql://{login}@{host}:{self.port}/{quote(database, safe='')}"
        return f"{address}?{query}" if query else address

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def _host_of(quoted: str) -> str:
    # Airflow writes the colons of an IPv6 address as %3A, without brackets.
    host = unquote(quoted)
    if "/" in host:
        raise SettingsError(
            "the host of a server is a path or a URL",
            remedy="Write its name or address: Strata connects over TCP, and not over a socket file.",
        )
    return host


def connect(address: ServerAddress, *, read_seconds: float | None = None) -> pymysql.Connection[Any]:
    """A new connection in autocommit mode.

    Args:
        address: The server's address.
        read_seconds: How long an answer may take; None for any time.

    Raises:
        AccessDeniedError: Wrong user or password, or TLS is required.
        SourceUnavailableError: The server does not answer.
        SourceSettingsError: TLS or compression was requested and is not available.
    """
    with server_errors(address):
        return open_connection(address, read_timeout=read_seconds, autocommit=True)


def open_connection(address: ServerAddress, **options: Any) -> pymysql.Connection[Any]:
    """The same with PyMySQL's own errors, for callers that translate them; `options` are PyMySQL's.

    Raises:
        pymysql.err.MySQLError: The server refuses, or does not answer.
        SourceSettingsError: Compression was requested and is not available.
        SettingsError: A TLS file does not exist, or the command that prints the password fails.
    """
    return _client_of(address)(
        host=address.host,
        port=address.port,
        user=address.user,
        password=_password_of(address),
        database=address.database,
        limits=address.limits,
        charset="utf8mb4",
        program_name="strata",
        **_tls_options(address),
        **options,
    )


def fetch_rows(connection: pymysql.Connection[Any], query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query. Raises what PyMySQL raises."""
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())


def _password_of(address: ServerAddress) -> bytes:
    if address.password_command is None:
        return address.password.encode()
    return printed_password(address.password_command, host=address.host, port=str(address.port), user=address.user)


def _client_of(address: ServerAddress) -> type[Client]:
    # Imported here: the settings import the address, and must load quickly.
    from strata_cdc.binlog.protocol.client import Client, TrustingClient  # noqa: PLC0415  see above

    if address.compression is not ProtocolCompression.UNCOMPRESSED:
        from strata_cdc.binlog.protocol.compression import CONNECTIONS  # noqa: PLC0415  see above

        client = CONNECTIONS[address.compression]
        return type(client.__name__, (TrustingClient, client), {}) if address.enable_cleartext_plugin else client
    return TrustingClient if address.enable_cleartext_plugin else Client


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
    """Turns PyMySQL's errors, errors of the socket, and answers that cannot be read into Strata's errors."""
    import pymysql  # noqa: PLC0415 - the settings import the address, and stay light

    try:
        yield
    except pymysql.err.MySQLError as error:
        raise as_strata_error(error, address) from error
    except OSError as error:
        raise SourceUnavailableError(f"the connection to {address} broke: {error}") from error
    except ODD_ANSWERS as error:
        raise SourceUnavailableError(
            f"{address} answers as no MySQL server does: {one_line(str(error))}",
            remedy="Check that the address is that of a MySQL server.",
        ) from error


def as_strata_error(error: Exception, address: ServerAddress) -> StrataError:
    """Strata's error for an error of PyMySQL."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = _error_text(error)
    if code in _NO_GRANT:
        return AccessDeniedError(
            f"{address} was refused: {text} ({code})",
            remedy="Run `strata doctor` for the grants that the account needs.",
        )
    if code in _NO_ACCESS:
        return AccessDeniedError(
            f"{address} was refused: {text} ({code})",
            remedy="Check user and password of the connection, and run `strata doctor` for the grants that it needs.",
        )
    unsafe = as_unsafe_error(error, str(address))
    if unsafe is not None:
        return unsafe
    return SourceUnavailableError(
        f"{address} does not answer as it should: {text}" + (f" ({code})" if code else ""),
        remedy="Check that the server runs and can be reached from here, then run the same again.",
    )


def as_unsafe_error(error: object, where: str) -> SourceSettingsError | None:
    """Strata's error if a connection was given up because it is not protected as requested; None for another reason."""
    code = error.args[0] if isinstance(error, Exception) and error.args else 0
    if code == _TLS_FAILED or isinstance(getattr(error, "original_exception", None), ssl.SSLError):
        return SourceSettingsError(
            f"{where} does not speak TLS as requested: {_error_text(error)}",
            remedy="Check `ssl_mode` and `ssl_ca` in the connection's URL, and the certificates of the server.",
        )
    if code == _CLEAR_PASSWORD:
        return SourceSettingsError(
            f"{where}: {_error_text(error)}",
            remedy="Use TLS (`ssl_mode` in the connection's URL); `enable_cleartext_plugin=true` there allows it.",
        )
    return None


def _error_text(error: object) -> str:
    """A server's message, in one line that no terminal reads as a command."""
    arguments: tuple[object, ...] = getattr(error, "args", ())
    return one_line(str(arguments[1]) if len(arguments) > 1 else str(error))


_SECONDS: Final = 60.0
"""As long as a server may take to let a user in."""
_REMEDY: Final = "Run the command by hand, as the user and in the environment of this process."


def printed_password(command: str, **about: str) -> bytes:
    """What a command prints, without the end of its line.

    Args:
        command: The program and its arguments.
        about: What the command finds in its environment, each as `STRATA_NAME`: tokens are for one host and one user.

    No shell reads the command; its words are split as a shell does it. Neither its words, which may hold a secret, nor
    what it prints is in a message.

    Raises:
        SettingsError: It does not exist, fails, prints nothing, or has not ended after a minute.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        raise SettingsError("password_command has a quote without an end") from None
    if not words:
        raise SettingsError("password_command is empty")
    program = f"password_command ({PurePath(words[0]).name})"
    try:
        environment = {**os.environ, **{f"STRATA_{name.upper()}": text for name, text in about.items()}}
        done = subprocess.run(words, capture_output=True, check=False, timeout=_SECONDS, env=environment)  # noqa: S603  the settings' own
    except OSError as error:
        raise SettingsError(f"{program} cannot be run: {error.strerror}", remedy=_REMEDY) from None
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{program} has not ended after {_SECONDS:.0f} s", remedy=_REMEDY) from None
    password = done.stdout.removesuffix(b"\n").removesuffix(b"\r")
    if done.returncode or not password:
        what = f"ended with {done.returncode}" if done.returncode else "printed nothing"
        raise SettingsError(f"{program} {what}", remedy=_REMEDY)
    return password
