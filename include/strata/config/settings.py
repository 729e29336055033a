"""Settings: one TOML file, read once at an edge, checked as a whole.
Not here: secrets. A source names a connection; its URL comes from the environment or from Airflow."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from strata.errors import SettingsError, UnknownSourceError
from strata.wire.connection import ServerAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SETTINGS_VARIABLE = "STRATA_SETTINGS"
"""Names the TOML file."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STORE_DATABASE = "strata"
"""Where the version table lives on a source's primary."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What the file says of one source."""

    connection: str
    """Id of the Airflow connection to the server; outside Airflow the variable `AIRFLOW_CONN_<ID>`."""
    store: str | None = None
    """SQLAlchemy URL of the store; by default it is database `strata` on the source itself."""
    store_connection: str | None = None
    """Id of a connection that holds the store's URL, where that has a password."""
    tables: tuple[str, ...] = ("*.*",)
    """Patterns of `database.table` to decode; versions are tracked for all."""
    exclude: tuple[str, ...] = ()
    """Patterns to leave out of `tables`."""
    slice_mb: int = 64
    """How much binlog one Spark task decodes (megabytes)."""
    segment_mb: int = 256
    """How large a landed segment may grow (megabytes)."""
    keep_days: int | None = None
    """How long landed segments are kept, at least until their rows are published; for ever if it is not set."""
    keep_gb: int | None = None
    """How many gigabytes of landed segments are kept, likewise."""
    keep_runs_days: int = 7
    """How long the folders of runs and quarantine are kept, at least until what they hold is settled."""
    track_schema_versions: bool = True
    """Whether DDL becomes versions; if not, it is noticed and reported, and no row behind it can be decoded."""
    watch_replication_stream: bool = False
    """Whether Airflow's triggerer follows the server's stream and tells of each DDL within seconds."""
    run_mb: int = 4096
    """How much landed binlog a run takes at most of what is owed (megabytes); a single interval may be larger."""
    owed_since: int | None = None
    """Nothing is owed of intervals that start before this time (microseconds UTC); None: all that has landed is."""
    on_statement: str = "publish"
    """What becomes of a table in an interval in which a change of it was logged as a statement, so that the binlog does
    not hold the rows: `publish` with a warning, or `hold`."""
    checks: str | None = None
    """Folder of users' own expectations, one file a table."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source, ready to be used; the secrets it carries are kept out of its repr."""

    name: str
    address: ServerAddress
    lake: str
    store_url: str = field(repr=False)
    settings: SourceSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file."""

    lake: str
    """Folder or URL below which everything lands and is published."""
    sources: Mapping[str, SourceSettings]
    find_connection: Callable[[str], str | None] = field(repr=False)

    def watched(self) -> list[str]:
        """Names of the sources whose stream is watched, in order."""
        return sorted(name for name, found in self.sources.items() if found.watch_replication_stream)

    def source(self, name: str) -> Source:
        """A source with its address.

        Raises:
            UnknownSourceError: The file has no such source.
            SettingsError: Its connection is not set, or is no MySQL URL.
        """
        found = self.sources.get(name)
        if found is None:
            known = ", ".join(sorted(self.sources)) or "none"
            raise UnknownSourceError(f"there is no source {name!r}; the settings have: {known}", source=name)
        address = ServerAddress.from_url(self._connection_url(name, found.connection))
        store_url = found.store
        if found.store_connection:
            store_url = self._connection_url(name, found.store_connection)
        return Source(name, address, self.lake, store_url or address.to_url(STORE_DATABASE), found)

    def _connection_url(self, source: str, connection: str) -> str:
        text = self.find_connection(connection)
        if text is None:
            raise SettingsError(
                f"connection {connection!r} is not set",
                source=source,
                remedy=f"Add it in Airflow (Admin, Connections), or set {connection_variable(connection)} to "
                "mysql://USER:PASSWORD@HOST:PORT/.",
            )
        return _connection_as_url(text)


def connection_variable(connection: str) -> str:
    """The environment variable in which Airflow, and the command line, look for a connection."""
    return f"AIRFLOW_CONN_{connection.upper()}"


def load_settings(environ: Mapping[str, str], find_connection: Callable[[str], str | None] | None = None) -> Settings:
    """Reads the file that `STRATA_SETTINGS` names.

    Args:
        environ: The environment.
        find_connection: From the id of a connection to its URL (or Airflow's JSON form); by default from `environ`.

    Raises:
        SettingsError: The file is missing or has mistakes; all of them are in the message.
    """
    path = environ.get(SETTINGS_VARIABLE)
    if not path:
        raise SettingsError(
            f"{SETTINGS_VARIABLE} is not set",
            remedy="Let it name a TOML file; docs/settings.md shows one.",
        )
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings cannot be read: {error.strerror}", file=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings are no TOML: {error}", file=path) from None
    mistakes: list[str] = []
    lake = _take_lake(raw, Path(path), mistakes)
    sources = _take_sources(raw, mistakes)
    mistakes += [f"{key} is not a setting" for key in raw]
    if mistakes:
        raise SettingsError("; ".join(mistakes), file=path, remedy="docs/settings.md names every setting.")
    return Settings(
        lake=lake,
        sources=sources,
        find_connection=find_connection or (lambda name: environ.get(connection_variable(name))),
    )


def _take_lake(raw: dict[str, Any], path: Path, mistakes: list[str]) -> str:
    lake = raw.pop("lake", None)
    if not isinstance(lake, str) or not lake:
        mistakes.append('lake is missing: a folder or URL, as in lake = "/data/lake"')
        return ""
    if "?" in lake or "@" in lake.partition("://")[2]:
        mistakes.append(
            "lake holds options or a key: put those of an object store into the environment, as in AWS_ENDPOINT_URL, "
            "AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    # A relative folder means beside the file, wherever the process was started.
    return lake if "://" in lake else str((path.parent / lake).resolve())


def _take_sources(raw: dict[str, Any], mistakes: list[str]) -> dict[str, SourceSettings]:
    tables = raw.pop("sources", None)
    if not isinstance(tables, dict) or not tables:
        mistakes.append("there is no source: add a table [sources.NAME]")
        return {}
    found: dict[str, SourceSettings] = {}
    for name, given in tables.items():
        if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
            mistakes.append(f"sources.{name}: a name has letters, digits, - and _ (it becomes a folder)")
        if not isinstance(given, dict):
            mistakes.append(f"sources.{name} is not a table")
            continue
        found[name] = _take_source(f"sources.{name}", given, mistakes)
    return found


_TEXT, _LIST, _NUMBER, _SWITCH = "a text", "a list of texts", "a whole number above 0", "true or false"
_TIME = "a time with a zone, as in 2026-11-21T03:30:00Z"
_POLICY = 'either "publish" or "hold"'
_FIELDS = {
    "connection": _TEXT,
    "store": _TEXT,
    "store_connection": _TEXT,
    "tables": _LIST,
    "exclude": _LIST,
    "slice_mb": _NUMBER,
    "segment_mb": _NUMBER,
    "keep_days": _NUMBER,
    "keep_gb": _NUMBER,
    "keep_runs_days": _NUMBER,
    "track_schema_versions": _SWITCH,
    "watch_replication_stream": _SWITCH,
    "run_mb": _NUMBER,
    "owed_since": _TIME,
    "on_statement": _POLICY,
    "checks": _TEXT,
}


def _take_source(where: str, given: dict[str, Any], mistakes: list[str]) -> SourceSettings:
    good: dict[str, Any] = {}
    for key, value in given.items():
        kind = _FIELDS.get(key)
        if kind is None:
            mistakes.append(f"{where}.{key} is not a setting (there are: {', '.join(_FIELDS)})")
        elif not _is_a(kind, value):
            mistakes.append(f"{where}.{key} is not {kind}")
        else:
            good[key] = _as_setting(kind, value)
    if "connection" not in given:
        mistakes.append(f"{where}.connection is missing: the id of the connection to the server")
        good["connection"] = ""
    if urlsplit(good.get("store", "")).password:
        mistakes.append(f"{where}.store holds a password: put the URL into a connection, named by store_connection")
    return SourceSettings(**good)


def _as_setting(kind: str, value: Any) -> Any:
    """A value of the file as the settings keep it."""
    if kind is _LIST:
        return tuple(value)
    return (value - _EPOCH) // timedelta(microseconds=1) if kind is _TIME else value


def _is_a(kind: str, value: object) -> bool:
    if kind is _TIME:
        return isinstance(value, datetime) and value.tzinfo is not None
    if kind is _POLICY:
        return value in {"publish", "hold"}
    if kind is _TEXT:
        return isinstance(value, str) and bool(value)
    if kind is _SWITCH:
        return isinstance(value, bool)
    if kind is _LIST:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _connection_as_url(text: str) -> str:
    """Airflow keeps a connection as a URL or as JSON; both to a URL."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        # Never the text itself: it holds a password.
        raise SettingsError("a connection starts like JSON and is none") from None
    login = quote(given.get("login") or "", safe="")
    if given.get("password"):
        login += ":" + quote(given["password"], safe="")
    port = f":{given['port']}" if given.get("port") else ""
    extra = given.get("extra") or {}
    extra = json.loads(extra) if isinstance(extra, str) else extra
    query = "?" + urlencode(extra) if extra else ""
    at = f"{login}@" if login else ""
    return f"{given.get('conn_type', 'mysql')}://{at}{given.get('host', '')}{port}/{given.get('schema') or ''}{query}"
