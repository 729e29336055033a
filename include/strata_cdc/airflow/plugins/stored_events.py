"""Which events of an asset Airflow has stored, from its public API: a trigger may not read Airflow's database, and the
messages between a trigger and the triggerer cannot request events.
Not here: what uses them (`replication_watcher.py`)."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from strata_cdc.errors import AccessDeniedError, StrataError, Transient

_SECONDS = 20.0
_PAGE_EVENTS = 100
"""Airflow returns no more at once, unless it is configured so."""
_REFUSED = frozenset({401, 403})


class AirflowUnavailableError(Transient):
    """Airflow's API does not answer."""


def stored_payloads(url: str, uri: str, most: int, page_events: int = _PAGE_EVENTS) -> list[dict[str, Any]]:
    """The payloads of the newest events of an asset that triggers sent; the newest comes first.

    Args:
        url: URL of the API, with user and password if it needs them: `https://user:password@airflow.example:8080/`.
        uri: URI of the asset.
        most: How many events to read, at most.
        page_events: How many events to request at a time.

    Raises:
        AirflowUnavailableError: The API does not answer, or not in the expected form.
        AccessDeniedError: The API does not know the user, or refuses assets to it.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise AirflowUnavailableError(f"its API has no such URL: {error}", remedy=_REMEDY) from None
    with _client(parsed) as client:
        extras = _extras(_Api(client, parsed), uri, most, page_events)
    return [extra["payload"] for extra in extras if "payload" in extra]


def _client(url: httpx.URL) -> httpx.Client:
    """A client without the account, which httpx would send with every request, and without the connection's options.

    It uses no proxy: the API is part of the same installation.
    """
    base = url.copy_with(scheme="https" if url.scheme == "https" else "http", userinfo=b"", query=None)
    return httpx.Client(base_url=base, timeout=_SECONDS, trust_env=False, verify=ssl.create_default_context())


def _extras(api: _Api, uri: str, most: int, page_events: int) -> list[dict[str, Any]]:
    extras: list[dict[str, Any]] = []
    for asset in api.get("assets", uri_pattern=uri)["assets"]:
        while asset["uri"] == uri and len(extras) < most:
            page = {"asset_id": asset["id"], "order_by": "-timestamp", "limit": page_events, "offset": len(extras)}
            events = api.get("assets/events", **page)["asset_events"]
            if not events:
                break
            extras += [event["extra"] for event in events]
    return extras


class _Api:
    """A session of the API."""

    def __init__(self, client: httpx.Client, account: httpx.URL) -> None:
        self._client = client
        if account.username:
            body = {"username": account.username, "password": account.password}
            answer = self._call("POST", "auth/token", json=body)
        else:
            answer = self._call("GET", "auth/token")
        client.headers["Authorization"] = f"Bearer {answer['access_token']}"

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


_REMEDY = "Check that the api-server runs, and check the connection `airflow_strata`."


def _refusal(status: int, path: str) -> StrataError:
    if status in _REFUSED:
        return AccessDeniedError(
            f"Airflow's API refuses {path} (HTTP {status})",
            remedy="The connection `airflow_strata` needs an account that may read assets.",
        )
    return AirflowUnavailableError(f"Airflow's API answers {path} with HTTP {status}", remedy=_REMEDY)
