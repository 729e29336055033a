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
    extra = _as_object(given.pop("extra", None) or {}, "the extra of a connection is no JSON")
    # JSON has numbers, too: a password of digits alone may be one.
    part = {name: str(value) for name, value in given.items()}
    login = quote(part.get("login", ""), safe="")
    if part.get("password"):
        login += ":" + quote(part["password"], safe="")
    at = f"{login}@" if login else ""
    port = f":{part['port']}" if given.get("port") else ""
    query = "?" + urlencode(extra) if extra else ""
    host = _host(part.get("host", ""))
    return f"{part.get('conn_type', 'mysql')}://{at}{host}{port}/{part.get('schema', '')}{query}"


def _host(host: str) -> str:
    """A host as URLs have it: an IPv6 address in brackets."""
    quoted = quote(host, safe=":[]")
    return f"[{quoted}]" if quoted.count(":") > 1 and not quoted.startswith("[") else quoted


def _as_object(given: str | dict[str, Any], mistake: str) -> dict[str, Any]:
    """The fields that have a value; Airflow stores an Extra as an object, or as its text."""
    try:
        value = json.loads(given) if isinstance(given, str) else given
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        # Never the text itself: it holds a password.
        raise SettingsError(mistake)
    return {name: field for name, field in value.items() if field is not None}
