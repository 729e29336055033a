"""moto's S3 behind a server of its own, as a program: `s3_program PORT`. `moto_server` searches, for each request, for
which of two hundred services it is, and opens a connection and a thread for it: three quarters of the work.
Not here: who starts it (`s3_server.py`)."""

from __future__ import annotations

import functools
import io
import sys
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from moto.core import serialize
from moto.moto_server.werkzeug_app import create_backend_app

from tests.http_messages import Answer, Connection, Server

if TYPE_CHECKING:
    from tests.http_messages import Request

_EMPTY = (204, 304)


class S3Connection(Connection):
    """A client of moto."""

    apps: dict[str, Any]

    def answer(self, request: Request) -> bool:
        """What moto answers."""
        app = self.apps["moto_api" if request.path.startswith("/moto-api/") else "s3"]
        try:
            answer = _ask(app, _environ(request))
        except Exception:  # noqa: BLE001  a server answers, whatever it was
            traceback.print_exc()
            answer = Answer(500, {}, b"")
        headers, body = {name.lower(): value for name, value in answer.headers.items()}, answer.body
        if answer.status not in _EMPTY:
            headers.setdefault("content-length", str(len(body)))
        self.send(Answer(answer.status, headers, b"" if request.method == "HEAD" else body))
        return True


def _environ(request: Request) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    environ = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path, "latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": request.path,
        "RAW_URI": request.path,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }
    for name, value in request.headers.items():
        if name != "transfer-encoding":
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
    environ["CONTENT_TYPE"] = request.headers.get("content-type", "")
    environ["CONTENT_LENGTH"] = str(len(request.body))
    return environ


def _ask(app: Any, environ: dict[str, Any]) -> Answer:
    told: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        told.extend((int(status.split(maxsplit=1)[0]), dict(headers)))

    parts = app(environ, start_response)
    body = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    status, headers = told
    return Answer(status, headers, body)


def main(port: str) -> None:
    """Serves until the process is killed."""
    serialize.parse_to_aware_datetime = functools.lru_cache(100_000)(serialize.parse_to_aware_datetime)
    S3Connection.apps = {name: create_backend_app(name) for name in ("s3", "moto_api")}
    with Server(("127.0.0.1", int(port)), S3Connection) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
