"""Access without a web server that checks it: everybody who has the token, in a header, or in a cookie that a link
sets.
Not here: Airflow's own guard (`airflow/plugins/schema_history.py`)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import HTTPException, Query, Request
from fastapi.responses import RedirectResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

SIGN_IN: Final = "/sign-in"
STATIC: Final = "/static/"
_COOKIE: Final = "strata_token"
_SCHEME: Final = "bearer"
_REFUSED: Final = (
    "the token is missing or wrong: open the address that `strata serve` printed when it started, or send the token in "
    "a header `Authorization: Bearer TOKEN`"
)


def token_guard(token: str) -> Callable[..., None]:
    """A guard that wants the token as `Authorization: Bearer`, or in the cookie; not for files of the package, so that
    the page that says how to sign in has its looks."""

    def check(request: Request, given: Annotated[str, Query(alias="token")] = "") -> None:
        if request.url.path.startswith(STATIC):
            return
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        given_token = bearer if scheme.lower() == _SCHEME else request.cookies.get(_COOKIE, "")
        if request.url.path == SIGN_IN:
            given_token = given
        if not hmac.compare_digest(given_token.encode(), token.encode()):
            raise HTTPException(401, _REFUSED, {"WWW-Authenticate": "Bearer"})

    return check


def certificate_guard() -> Callable[..., None]:
    """A guard for TLS that has requested a client's certificate already: no other connection gets as far as a request.

    It refuses requests without TLS, so that a server which was started wrongly gives no access.
    """

    def check(request: Request) -> None:
        if request.scope["scheme"] != "https":
            raise HTTPException(401, "the connection has no certificate")

    return check


def add_sign_in(app: FastAPI) -> None:
    """Adds the address that takes the token and keeps it in a cookie, so that it is in no other address."""

    def sign_in(request: Request, token: str) -> Any:
        answer = RedirectResponse("./", 303)
        answer.set_cookie(_COOKIE, token, httponly=True, samesite="strict", secure=request.scope["scheme"] == "https")
        return answer

    app.add_api_route(SIGN_IN, sign_in, include_in_schema=False)
