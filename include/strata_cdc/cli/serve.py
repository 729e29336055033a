"""`strata serve`: the schema history as pages and as JSON, and the update streams, without Airflow.
Not here: the pages (`serve/`), the streams (`serve/streaming/`)."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path  # noqa: TC003  typer asks for it when it runs
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec.structs import asdict

from strata_cdc.clock import now_micros
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN: Final = "STRATA_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_LEAST_CHARACTERS: Final = 16
_GRACE_SECONDS: Final = 2


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's are for a proxy or TLS.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8090,
    tls_cert: Annotated[Path | None, typer.Option(help="The server's certificate (PEM): answers by HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM), readable to this user only.")] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(help="Certificates (PEM): only clients with a certificate that these have signed are admitted."),
    ] = None,
) -> None:
    """Serves the schema history and the update streams to browsers and programs, read only, until it is stopped.

    Clients send the token of STRATA_SERVE_TOKEN, in a header `Authorization: Bearer TOKEN`; without the variable a new
    one is made, and shown. With --client-ca a client's certificate is enough, unless the variable is there: then both
    are wanted.
    """
    import uvicorn

    from strata_cdc.serve.app import make_app
    from strata_cdc.serve.around import PageHost
    from strata_cdc.serve.bounded_connections import BoundedConnections
    from strata_cdc.serve.memory import release_memory_often
    from strata_cdc.serve.numbers import Numbers
    from strata_cdc.serve.sources import Sources
    from strata_cdc.serve.streaming.ending import EndingServer
    from strata_cdc.serve.streaming.routes import add_streams
    from strata_cdc.serve.tls import tls_options
    from strata_cdc.serve.token_guard import SIGN_IN, add_sign_in, certificate_guard, token_guard

    # Mistakes of the settings come before anything listens.
    load_settings(os.environ)
    tls = tls_options(tls_cert, tls_key, client_ca)
    by_certificate = client_ca is not None and _TOKEN not in os.environ
    token = _token()
    sources = Sources(lambda: load_settings(os.environ))
    guard = certificate_guard() if by_certificate else token_guard(token)
    app = make_app(sources, guard, now_micros, PageHost(Numbers(_read_numbers)))
    streams = add_streams(app, sources)
    # Before the link is shown: from here on a connection waits until it is answered.
    listening = _listening(host, port)
    address = f"{'https' if tls else 'http'}://{host}:{port}"
    if by_certificate:
        typer.echo(f"{address}/")
    else:
        add_sign_in(app)
        typer.echo(f"{address}{SIGN_IN}?token={'$' + _TOKEN if _TOKEN in os.environ else token}")
    config = uvicorn.Config(
        app,
        http=BoundedConnections,
        ws="none",
        log_level="warning",
        server_header=False,
        # For pages that are being made, and for readers of streams that take nothing.
        timeout_graceful_shutdown=_GRACE_SECONDS,
        **tls,
    )
    release_memory_often()
    with suppress(KeyboardInterrupt):
        EndingServer(config, streams).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        # Python adds the address to the system's message.
        reason = str(error.strerror).partition(" (while")[0]
        raise Usage(
            f"nothing can listen on {host}, port {port}: {reason}",
            remedy="Give another --port, or as --host an address of this machine.",
        ) from None


def _read_numbers(source: str) -> Mapping[str, float | None]:
    from strata_cdc.ops.metrics import read_metrics

    return asdict(read_metrics(source, settings=load_settings(os.environ), now=now_micros()))


def _token() -> str:
    given = os.environ.get(_TOKEN)
    if given is None:
        return secrets.token_urlsafe(32)
    if len(given) < _LEAST_CHARACTERS:
        raise Usage(
            f"{_TOKEN} is shorter than {_LEAST_CHARACTERS} characters",
            remedy="`openssl rand -hex 32` makes a token that cannot be guessed.",
        )
    return given
