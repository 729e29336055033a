"""Connections as Airflow writes them.
Not here: finding a connection (`settings.py`), what its URL means (`binlog/protocol/connection.py`)."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from strata_cdc.errors import SettingsError

_EXTRA: Final = "__extra__"
"""The option into which Airflow writes an Extra that options cannot express, such as an empty Extra."""


def connection_as_url(text: str) -> str:
    """Converts a connection, which Airflow stores as a URL or as JSON, to a URL.

    Raises:
        SettingsError: It is neither.
    """
    if not text.lstrip().startswith("{"):
        head, _, query = text.partition("?")
        options = dict(parse_qsl(query))
        if _EXTRA not in options:
            return text
        options |= _as_object(options.pop(_EXTRA), "the Extra of a connection is no JSON")
        return f"{head}?{urlencode(options)}" if options else head
    given = _as_object(text, "a connection starts like JSON and is none")
    login = quote(given.get("login") or "", safe="")
    if given.get("password"):
        login += ":" + quote(given["password"], safe="")
    port = f":{given['port']}" if given.get("port") else ""
    extra = given.get("extra") or {}
    extra = _as_object(extra, "the extra of a connection is no JSON") if isinstance(extra, str) else extra
    query = "?" + urlencode(extra) if extra else ""
    at = f"{login}@" if login else ""
    return f"{given.get('conn_type', 'mysql')}://{at}{given.get('host', '')}{port}/{given.get('schema') or ''}{query}"


def _as_object(text: str, mistake: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        # Never the text itself: it holds a password.
        raise SettingsError(mistake)
    return value
