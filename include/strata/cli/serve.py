"""`strata serve`: the schema history as pages and as JSON, without Airflow.
Not here: the pages (`serve/`)."""

from __future__ import annotations

import os
import secrets
import time
from typing import Annotated, Final

import typer

from strata.config.settings import load_settings
from strata.errors import Usage

_TOKEN: Final = "STRATA_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_LEAST_CHARACTERS: Final = 16


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's are for a proxy.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8090,
) -> None:
    """Serves the schema history to browsers and programs, read only, until it is stopped.

    Who reads has the token of STRATA_SERVE_TOKEN, in a header `Authorization: Bearer TOKEN`; without the variable a new
    one is made, and shown.
    """
    # Imported here: the command's help must not load a web server.
    import uvicorn  # noqa: PLC0415  see above

    from strata.serve.app import make_app  # noqa: PLC0415  see above
    from strata.serve.sources import Sources  # noqa: PLC0415  see above
    from strata.serve.token_guard import SIGN_IN, add_sign_in, token_guard  # noqa: PLC0415  see above

    # Mistakes of the settings come before anything listens.
    load_settings(os.environ)
    token = _token()
    app = make_app(Sources(lambda: load_settings(os.environ)), token_guard(token), lambda: time.time_ns() // 1000)
    add_sign_in(app)
    address = f"http://{host}:{port}"
    if _TOKEN in os.environ:
        typer.echo(f"{address}{SIGN_IN}?token=$" + _TOKEN)
    else:
        typer.echo(f"{address}{SIGN_IN}?token={token}")
    uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False)


def _token() -> str:
    given = os.environ.get(_TOKEN)
    if given is None:
        return secrets.token_urlsafe(32)
    if len(given) < _LEAST_CHARACTERS:
        raise Usage(
            f"{_TOKEN} is shorter than {_LEAST_CHARACTERS} characters",
            remedy="`openssl rand -hex 32` makes one that nobody guesses.",
        )
    return given


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(serve)
