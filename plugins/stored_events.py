"""Which events of an asset Airflow has stored, asked of its public API: a trigger may not read Airflow's database, and
none of the messages by which it speaks to the triggerer asks for events.
Not here: what follows from it (`replication_watcher.py`)."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from strata_cdc.errors import AccessDeniedError, StrataError, Transient

_SECONDS = 20.0
_PAGE_EVENTS = 100
"""Airflow gives no more at once, unless it is set up so."""
_REFUSED = frozenset({401, 403})


class AirflowUnavailableError(Transient):
    """Airflow's API does not answer."""


def stored_payloads(url: str, uri: str, most: int, page_events: int = _PAGE_EVENTS) -> list[dict[str, Any]]:
    """What the newest events of an asset carry that triggers gave; the newest comes first.

    Args:
        url: Of the API, with user and password if it wants them: `https://user:password@airflow.example:8080/`.
        uri: Of the asset.
        most: Events to look at.
        page_events: Of which so many are asked for at a time.

    Raises:
        AirflowUnavailableError: It does not answer, or not so.
        AccessDeniedError: It does not know the user, or lets it not read assets.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise AirflowUnavailableError(f"its API has no such URL: {error}", remedy=_REMEDY) from None
    with _client(parsed) as client:
        found = _extras(_Api(client, parsed), uri, most, page_events)
    return [extra["payload"] for extra in found if "payload" in extra]


def _client(url: httpx.URL) -> httpx.Client:
    """Without the account, which httpx would send with every request, and a connection's options.

    Proxies are not for what a fleet has itself.
    """
    base = url.copy_with(scheme="https" if url.scheme == "https" else "http", userinfo=b"", query=None)
    return httpx.Client(base_url=base, timeout=_SECONDS, trust_env=False, verify=ssl.create_default_context())


def _extras(api: _Api, uri: str, most: int, page_events: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for asset in api.get("assets", uri_pattern=uri)["assets"]:
        while asset["uri"] == uri and len(found) < most:
            page = {"asset_id": asset["id"], "order_by": "-timestamp", "limit": page_events, "offset": len(found)}
            events = api.get("assets/events", **page)["asset_events"]
            if not events:
                break
            found += [event["extra"] for event in events]
    return found


class _Api:
    """The API, logged in to."""

    def __init__(self, client: httpx.Client, account: httpx.URL) -> None:
        self._client = client
        if account.username:
            body = {"username": account.username, "password": account.password}
            found = self._call("POST", "auth/token", json=body)
        else:
            found = self._call("GET", "auth/token")
        client.headers["Authorization"] = f"Bearer {found['access_token']}"

    def get(self, path: str, **query: str | int) -> Any:
        return self._call("GET", f"api/v2/{path}", params=query)

    def _call(self, method: str, path: str, **content: Any) -> Any:
        try:
            answer = self._client.request(method, path, **content)
            if answer.status_code >= 300:
                raise _refusal(answer.status_code, path)
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise AirflowUnavailableError(f"Airflow's API does not answer: {error}", remedy=_REMEDY) from None


_REMEDY = "Look whether the api-server runs, and at the connection `airflow_strata`."


def _refusal(status: int, path: str) -> StrataError:
    if status in _REFUSED:
        return AccessDeniedError(
            f"Airflow's API refuses {path} (HTTP {status})",
            remedy="The connection `airflow_strata` needs an account that may read assets.",
        )
    return AirflowUnavailableError(f"Airflow's API answers {path} with HTTP {status}", remedy=_REMEDY)
