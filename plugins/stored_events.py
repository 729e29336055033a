"""Which events of an asset Airflow has stored, asked of its public API: a trigger may not read Airflow's database, and
none of the messages by which it speaks to the triggerer asks for events.
Not here: what follows from it (`replication_watcher.py`)."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from strata.errors import AccessDeniedError, StrataError, Transient

_SECONDS = 20.0
_PAGE_EVENTS = 100
"""Airflow gives no more at once, unless it is set up so."""
_REFUSED = frozenset({401, 403})


class AirflowUnavailableError(Transient):
    """Airflow's API does not answer."""


def stored_payloads(url: str, uri: str, most: int) -> list[dict[str, Any]]:
    """What the newest events of an asset carry that triggers gave; the newest comes first.

    Args:
        url: Of the API, with user and password if it wants them: `https://user:password@airflow.example:8080/`.
        uri: Of the asset.
        most: Events to look at.

    Raises:
        AirflowUnavailableError: It does not answer, or not so.
        AccessDeniedError: It does not know the user, or lets it not read assets.
    """
    api = _Api(url)
    found: list[dict[str, Any]] = []
    for asset in api.get("assets", uri_pattern=uri)["assets"]:
        while asset["uri"] == uri and len(found) < most:
            page = {"asset_id": asset["id"], "order_by": "-timestamp", "limit": _PAGE_EVENTS, "offset": len(found)}
            events = api.get("assets/events", **page)["asset_events"]
            if not events:
                break
            found += [event["extra"] for event in events]
    return [extra["payload"] for extra in found if "payload" in extra]


class _Api:
    """The API, logged in to."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._token: str = self._log_in()["access_token"]

    def get(self, path: str, **query: str | int) -> Any:
        return self._call("GET", f"/api/v2/{path}?{urlencode(query)}", {"Authorization": f"Bearer {self._token}"})

    def _log_in(self) -> Any:
        if not self._url.username:
            return self._call("GET", "/auth/token", {})
        account = {"username": unquote(self._url.username), "password": unquote(self._url.password or "")}
        return self._call("POST", "/auth/token", {"Content-Type": "application/json"}, json.dumps(account))

    def _call(self, method: str, path: str, headers: dict[str, str], body: str | None = None) -> Any:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=_SECONDS)
        try:
            connection.request(method, self._url.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise _refusal(answer.status, path.partition("?")[0])
            return json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            raise AirflowUnavailableError(f"Airflow's API does not answer: {error}", remedy=_REMEDY) from None
        finally:
            connection.close()


_REMEDY = "Look whether the api-server runs, and at the connection `airflow_strata`."


def _refusal(status: int, path: str) -> StrataError:
    if status in _REFUSED:
        return AccessDeniedError(
            f"Airflow's API refuses {path} (HTTP {status})",
            remedy="The connection `airflow_strata` needs an account that may read assets.",
        )
    return AirflowUnavailableError(f"Airflow's API answers {path} with HTTP {status}", remedy=_REMEDY)
