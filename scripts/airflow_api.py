"""The few calls of Airflow's REST API that starting it and the demo need.
Not here: starting it (`fleet.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 90
"""A web server that was just installed compiles what it imports, and first requests wait for it."""


@dataclass(slots=True)
class AirflowApi:
    """A signed-in client; the token is fetched on first use.

    Args:
        url: `http://host:port`.
        user: Name of a user of the simple auth manager.
        password: Its password.
    """

    url: str
    user: str
    password: str = field(repr=False)
    _token: str | None = field(default=None, repr=False)
    _client: httpx.Client = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Makes the connection's client once: each client reads all certificates of the machine, with or without
        TLS."""
        # The server is on this machine: no proxy is used.
        self._client = httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def health(self) -> dict[str, Any] | None:
        """The health of each component, or None while the server does not answer."""
        try:
            return self._call("GET", "/api/v2/monitor/health", signed=None)
        except httpx.HTTPError:
            return None

    def warm(self) -> None:
        """Makes the server load the API that tasks use; otherwise the first task would wait for it."""
        self._call("GET", "/execution/health", signed=None)

    def has_dag(self, dag: str) -> bool:
        """True once the DAG has been parsed."""
        try:
            self.get(f"/dags/{dag}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 404:
                return False
            raise
        return True

    def set_paused(self, dag: str, paused: Literal["yes", "no"]) -> None:
        """Pauses a DAG's runs, or lets them start."""
        self._signed("PATCH", f"/api/v2/dags/{dag}", {"is_paused": paused == "yes"})

    def put_connections(self, connections: Mapping[str, str]) -> None:
        """Makes connections, or replaces them, so that they are where people look for them.

        Args:
            connections: By id, as Airflow reads them from variables: a URL, or JSON.
        """
        entities = [{"connection_id": name, **_connection_fields(text)} for name, text in connections.items()]
        action = {"action": "create", "entities": entities, "action_on_existence": "overwrite"}
        done = self._signed("PATCH", "/api/v2/connections", {"actions": [action]})["create"]
        if done["errors"]:
            raise RuntimeError(f"Airflow refused connections: {[error.get('error') for error in done['errors']]}")

    def paused_dags(self) -> list[str]:
        """The paused DAGs."""
        return sorted(dag["dag_id"] for dag in self.get("/dags?paused=true")["dags"])

    def trigger(self, dag: str, conf: dict[str, Any]) -> str:
        """Starts a run by hand and returns its id."""
        run = self._signed("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def get(self, path: str) -> dict[str, Any]:
        """Any resource below `/api/v2`."""
        return self._signed("GET", f"/api/v2{path}")

    def _signed(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if self._token is None:
            login = {"username": self.user, "password": self.password}
            self._token = str(self._call("POST", "/auth/token", login, signed=None)["access_token"])
        return self._call(method, path, body, signed=self._token)

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, signed: str | None
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {signed}"} if signed else {}
        answer = self._client.request(method, self.url + path, json=body, headers=headers)
        return dict(answer.raise_for_status().json())


def _connection_fields(text: str) -> dict[str, Any]:
    """A connection in the form of the API."""
    if text.lstrip().startswith("{"):
        found = json.loads(text)
    else:
        parts = urlsplit(text)
        found = {
            "conn_type": parts.scheme,
            "host": parts.hostname,
            "login": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "port": parts.port,
            "schema": parts.path.strip("/"),
            "extra": dict(parse_qsl(parts.query)),
        }
    extra = found.get("extra") or None
    note = "Written again by each `make up`; for another server make your own connection, and name it in the settings."
    return {**found, "extra": json.dumps(extra) if isinstance(extra, dict) else extra, "description": note}
