"""Settings: one TOML file, read once at an edge, checked as a whole.
Not here: secrets. A source names a connection, whose URL comes from the environment or from Airflow."""

from __future__ import annotations

import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import parse_qs

from msgspec import Meta, Struct

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.connections import connection_as_url
from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.config.groups import NAME, Duration, GroupSettings, check_clock_bound, micros_of, take_groups
from strata_cdc.config.paths import address_beside, is_usable_lake, path_beside, store_beside
from strata_cdc.config.source_kinds import MYSQL, TICDC, BinaryEncoding, SinkText, SourceKind, check_kind, no_server
from strata_cdc.config.toml_file import key_lines
from strata_cdc.errors import SettingsError, UnknownSourceError
from strata_cdc.fields import Mistakes, read_fields
from strata_cdc.schema.model.patterns import can_match

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping


# The setting `mirror_renames`: what a mirror does if its table renames columns, for all tables or by pattern.
_Rename = Literal["copy", "keep", "add"]
# A pattern that can match a table has a dot, or a wildcard that can match a dot.
_Pattern = Annotated[str, Meta(pattern=r"[.*?\[]")]
MirrorRenames = Annotated[
    _Rename | dict[_Pattern, _Rename],
    Meta(description='one of "copy", "keep" and "add", or a table of these by pattern, as in {"shop.*" = "keep"}'),
]


SETTINGS_VARIABLE = "STRATA_SETTINGS"
TEXT_VARIABLE = "STRATA_SETTINGS_TEXT"
"""Holds the settings themselves, where the processes have no file in common."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
STORE_DATABASE = "strata"
"""The database of the version table on a source's primary."""

# The values of the settings; the message about a mistake repeats the description.
_Text = Annotated[str, Meta(min_length=1, description="a text")]
_Texts = Annotated[tuple[_Text, ...], Meta(description='a list of texts, as in ["shop.*"]')]
_Number = Annotated[int, Meta(gt=0, description="a whole number above 0")]
_ServerId = Annotated[int, Meta(gt=0, lt=1 << 32, description="a whole number from 1 to 4294967295")]
_Minutes = Annotated[int, Meta(gt=5, description="a whole number above 5, for a run begins after its five minutes")]
_Count = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
_Percent = Annotated[int, Meta(gt=0, le=100, description="a whole number from 1 to 100")]
_Switch = Annotated[bool, Meta(description="true or false")]
_Time = Annotated[datetime, Meta(tz=True, description="a time with a zone, as in 2026-11-21T03:30:00Z")]
_Copies = Annotated[Literal["swapped", "all", "none"], Meta(description='one of "swapped", "all" and "none"')]
_Policy = Annotated[Literal["publish", "hold"], Meta(description='either "publish" or "hold"')]
_Engine = Annotated[Literal["one_pass"], Meta(description='"one_pass", the only engine there is; the line may go')]
_EngineName = Annotated[Literal["auto", "local", "spark"], Meta(description='one of "auto", "local" and "spark"')]
_MirrorMode = Annotated[
    Literal["deletion_vectors", "copy_on_write"], Meta(description='either "deletion_vectors" or "copy_on_write"')
]
_Keys = Annotated[int, Meta(ge=0, description='a whole number, or "all"')] | Literal["all"]
_FirstLanding = Annotated[Literal["oldest", "snapshot"], Meta(description='either "oldest" or "snapshot"')]


class SourceSettings(Struct, frozen=True):
    """The settings of one source."""

    connection: Annotated[str, Meta(min_length=1, description="the id of the connection to the server, a text")] = ""
    """Id of the Airflow connection to the server; outside Airflow the variable `AIRFLOW_CONN_<ID>`."""
    store: _Text | None = None
    """SQLAlchemy URL of the store; by default the `store` at the top of the file, else database `strata` on the source
    itself."""
    store_connection: _Text | None = None
    """Id of a connection that holds the store's URL, if it has a password; the source's own connection for a store on
    it."""
    replicas: _Texts = ()
    """Ids of connections to other servers with the same transactions: `strata doctor` reports whether landing could
    continue with each of them."""
    password_command: _Text | None = None
    """A command that prints the password, run for each connection to the server: for tokens that are valid for some
    minutes. The connection's own password is then not used, and the store cannot be on this server."""
    server_id: _ServerId | None = None
    """The number with which landing is a replica of the server; by default a random one for each connection."""
    land_mb_per_second: _Number | None = None
    """How fast landing reads from the server at most (megabytes a second), on average; without a limit by default."""
    lineage: _Text | None = None
    """The name of the source's history in its tokens; use another name if the same GTIDs are other transactions."""
    copied_from: _Texts = ()
    """Other sources whose rows it has as copies with the same GTIDs: it was split off, or replicates with filters."""
    tables: _Texts = ("*.*",)
    """Patterns of `database.table` to decode; versions are tracked for all tables."""
    exclude: _Texts = ()
    """Patterns to exclude from `tables`."""
    sensitive: _Texts = ()
    """Patterns of `database.table.column`: columns whose values are shown nowhere but in the tables themselves."""
    slice_mb: _Number = 64
    """How much binlog one thread or Spark task decodes (megabytes)."""
    segment_mb: _Number = 256
    """How large a landed segment may grow (megabytes)."""
    land_from: _FirstLanding = "oldest"
    """Where the first landing begins: with the oldest binlog that the server has, or with the first snapshot."""
    keep_days: _Number | None = None
    """How long landed segments are kept, at least until their rows are published; without a limit if it is not set."""
    keep_gb: _Number | None = None
    """How many gigabytes of landed segments are kept, likewise."""
    keep_runs_days: _Number = 7
    """How long the folders of runs and quarantine are kept, and longer while their rows are pending, failed or
    blocked."""
    merge_minutes: _Count = 10
    """How long an interval is that upkeep makes of many shorter ones (minutes); 0: intervals stay as they are."""
    merge_days: _Count = 30
    """How old intervals are (days) of which upkeep makes one for each day; 0: they stay as they are."""
    keep_merged_hours: _Count = 6
    """How long the files of change tables are kept that upkeep has merged into others: readers that opened a table
    before still read them."""
    track_schema_versions: _Switch = True
    """Whether DDL becomes versions; if not, DDL is only reported, and no row after it can be decoded."""
    watch_replication_stream: _Switch = False
    """Whether Airflow's triggerer follows the server's stream and reports each DDL within seconds."""
    run_mb: _Number = 4096
    """How much pending binlog a run processes at most (megabytes); a single interval may be larger."""
    owed_since: _Time | None = None
    """Intervals that start before this time are not processed; None: everything that has landed is pending."""
    on_statement: _Policy = "publish"
    """What happens to a table in an interval with a change that was logged as a statement, so that the binlog does not
    hold the rows: `publish` with a warning, or `hold` (it is blocked)."""
    leave_out_copies: _Copies = "swapped"
    """Which copies that gh-ost and pt-online-schema-change make beside a table are excluded: those that the history
    shows as `swapped` with a table, `all` tables with such a name beside a table, or `none`."""
    engine: _EngineName = "auto"
    """What decodes: `local` (threads of the process that does the step), `spark`, or `auto`, either by the run's
    size."""
    local_mb: _Number = EngineSettings().local_mb
    """The most binlog (megabytes) of a run that `auto` decodes without Spark."""
    local_memory_mb: _Number = EngineSettings().local_memory_mb
    """How much memory (megabytes) decoding without Spark may take, at least that of one slice."""
    checks: _Text | None = None
    """Folder or URL of users' own expectations, one file a table."""
    checks_engine: _Engine = "one_pass"
    """Has no effect: settings of older versions have it."""
    compare_keys: _Keys = 100
    """For how many keys of a table and interval the before image of the first change is compared with what was
    published
    earlier: a number, or all."""

    mirrors: _Texts = ()
    """Patterns of `database.table` that have a mirror: a table as it is on the server; none by default."""
    mirror_mode: _MirrorMode = "deletion_vectors"
    """How new mirrors apply changes: with deletion vectors, or, for readers that do not support these, by copies of the
    files that change."""
    mirror_renames: MirrorRenames = "copy"
    """What a mirror does if its table renames columns: `copy`, `keep` or `add`, for all tables or by pattern."""
    mirror_read_again: _Switch = True
    """Whether a run itself dumps the tables whose mirrors are blocked because their rows are in no log."""
    compact_files: _Number = 50
    """How many small files a mirror may have before upkeep merges them."""
    compact_dead_percent: _Percent = 20
    """How many percent of the rows in a mirror's files may be deleted rows before upkeep rewrites them."""
    keep_mirror_hours: _Number = 168
    """How long former states of a mirror stay readable; upkeep deletes the files that only older states need."""
    dump_parallel: _Number = 2
    """How many tables a dump reads at once, each over its own connection."""
    dump_chunk_mb: _Number = 64
    """How much of a table a dump reads in one consistent read (megabytes, by the server's estimate of a row's
    length)."""
    dump_pause_ms: _Count = 0
    """How long a dump waits between two chunks of a table (milliseconds), to leave the server free for others."""
    reconcile_keys: _Number | None = None
    """How many rows of each table the DAG `reconcile_sources` compares with the server on its schedule; None: only when
    it is started by hand."""
    reconcile_rows: _Number = 10_000
    """How many rows one SELECT of a comparison reads."""
    reconcile_pause_ms: _Count = 20
    """How long a comparison waits between two SELECTs (milliseconds)."""

    kind: SourceKind = MYSQL
    """Where the changes come from: a server with a binlog (`mysql`), or the folder of a `ticdc` storage sink."""
    url: _Text | None = None
    """Of `ticdc`: the folder or URL of the sink (`sink-uri` of the changefeed)."""
    null: SinkText | None = None
    """Of `ticdc`: how its CSV files write NULL (`null` in [sink.csv]), by default `\\N`."""
    binary_encoding: BinaryEncoding | None = None
    """Of `ticdc`: how its CSV files write bytes (`binary-encoding-method`), by default `base64`."""
    time_zone: _Text | None = None
    """Of `ticdc`: the time zone of its TIMESTAMP columns (`cdc server --tz`); without it, such tables are refused."""

    @property
    def engine_settings(self) -> EngineSettings:
        """What the engine of a run depends on, beside the run."""
        return EngineSettings(Engine(self.engine), self.local_mb, self.local_memory_mb)

    @property
    def owed_since_micros(self) -> int | None:
        """`owed_since` in microseconds UTC."""
        return None if self.owed_since is None else (self.owed_since - _EPOCH) // timedelta(microseconds=1)


class FileSettings(Struct, frozen=True):
    """The settings at the top of the file."""

    lake: Annotated[str, Meta(min_length=1, description='a folder or URL, as in lake = "/data/lake"')]
    """Where everything is: landed segments, change tables, mirrors, runs; a relative folder is beside the file."""
    sources: Annotated[dict[str, Any], Meta(description="a table of tables, as in [sources.shop]")]
    """The servers, by name."""
    store: _Text | None = None
    """As `store` of a source, for all sources that name no store."""
    store_connection: _Text | None = None
    """Id of a connection that holds the store's URL, for all sources that name no store."""
    rows_in_airflow: _Switch = False
    """Whether the page in Airflow shows rows of tables, to everybody who may see plugins there; `strata serve` shows
    them to those who have its token."""
    fresh_within_minutes: _Minutes | None = None
    """Airflow alerts if a scheduled run has not ended this long after its span began; no alert by default."""
    clock_bound: Duration | None = None
    """By how much the clocks of servers may differ: tokens without a common source are ordered by time if their times
    differ by more; by default they are not."""
    groups: Annotated[dict[str, Any], Meta(description="a table of tables, as in [groups.orders]")] = {}
    """Groups of sources that are read as one stream, by name."""


# Classes with secrets are dataclasses: a field with `repr=False` is shown nowhere, not even in rich's traces.


@dataclass(frozen=True, slots=True)
class Source:
    """One source, ready for use; its secrets are not in its repr."""

    name: str
    server: ServerAddress | None
    """None: it is the folder of a TiCDC sink."""
    lake: str
    store_url: str = field(repr=False)
    settings: SourceSettings
    copied_from: Mapping[str, str] = field(default_factory=dict)
    """Sources whose GTIDs it has by copy -> their lineages."""

    @property
    def is_sink(self) -> bool:
        """Whether its changes come from the folder of a TiCDC sink."""
        return self.server is None

    @property
    def address(self) -> ServerAddress:
        """Of its server.

        Raises:
            SourceSettingsError: It has none: it is the folder of a TiCDC sink.
        """
        if self.server is None:
            raise no_server(self.name)
        return self.server

    @property
    def lock_place(self) -> ServerAddress | str | None:
        """What holds the locks of its mirrors if the lake is at a URL, where all processes that share the source meet.

        Its server; of a sink where its store is, a MySQL server or a folder beside the file; None for another store.
        """
        if self.server is not None:
            return self.server
        kind, _, file = self.store_url.partition("://")
        if kind.split("+")[0] == "mysql":
            return ServerAddress.from_url(self.store_url)
        path = file.partition("?")[0].removeprefix("/")
        is_file = kind.split("+")[0] == "sqlite" and path and not path.startswith("file:")
        return f"{path}.locks/{self.name}" if is_file else None

    @property
    def lineage(self) -> str:
        """The name of its history in tokens."""
        return self.settings.lineage or ""

    @property
    def segment_bytes(self) -> int:
        """How large a landed segment may grow."""
        return self.settings.segment_mb << 20


@dataclass(frozen=True, slots=True)
class Group:
    """A group, ready for use."""

    name: str
    sources: tuple[Source, ...]
    """In the order of their names."""
    max_skew: int
    """Microseconds."""
    clock_bound: int
    """Microseconds."""
    global_keys: tuple[str, ...] = ()
    journal: str | None = None
    """Path of the journal's file."""
    former: tuple[Source, ...] = ()
    """Servers of the settings that are in no group: a switchover may lead from them."""
    source_gtid_column: str | None = None
    """`database.table.column` in which copiers keep the old source's GTID set."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file."""

    lake: str
    """Folder or URL below which everything lands and is published."""
    sources: Mapping[str, SourceSettings]
    find_connection: Callable[[str], str | None] = field(repr=False)
    folder: Path | None = None
    """Folder of the settings file: relative paths in the file or in a connection begin there. None: there is no
    file."""
    groups: Mapping[str, GroupSettings] = field(default_factory=dict)
    fresh_within_minutes: int | None = None
    """How old the readers' data may get before Airflow alerts; None: no alert."""
    rows_in_airflow: bool = False
    """Whether the page in Airflow shows rows of tables."""
    clock_bound: int | None = None
    """By how much the clocks of servers may differ (microseconds), for `Token.compare`; None: not known."""

    def watched(self) -> list[str]:
        """Names of the sources whose stream is watched, in order."""
        return sorted(name for name, settings in self.sources.items() if settings.watch_replication_stream)

    def source_name(self, name: str | None) -> str:
        """The given name; without a name, the name of the only source.

        Raises:
            UnknownSourceError: No name is given, and there are several sources.
        """
        if name is not None:
            return name
        if len(self.sources) > 1:
            raise UnknownSourceError(
                f"which source: the settings have {', '.join(sorted(self.sources))}",
                remedy=f"Name one, as in --source {min(self.sources)}.",
            )
        return next(iter(self.sources))

    def source(self, name: str | None) -> Source:
        """A source with its address; without a name, the only source.

        Raises:
            UnknownSourceError: The file has no such source, or several and no name is given.
            SettingsError: Its connection is not set, or is no MySQL URL.
        """
        name = self.source_name(name)
        settings = self.sources.get(name)
        if settings is None:
            known = ", ".join(sorted(self.sources)) or "none"
            raise UnknownSourceError(
                f"there is no source {name!r}; the settings have: {known}",
                source=name,
                remedy="Name one of them, or add it to the settings.",
            )
        address = None if settings.kind == TICDC else self._address(name, settings, settings.connection)
        store_url = settings.store
        if settings.store_connection and settings.store_connection != settings.connection:
            store_url = store_beside(self.folder, self._connection_url(name, settings.store_connection))
        if address is not None:
            store_url = store_url or address.to_url(STORE_DATABASE)
        copied_from = {other: self.sources[other].lineage or "" for other in settings.copied_from}
        return Source(name, address, self.lake, store_url or "", settings, copied_from)

    def replica(self, name: str, connection: str) -> Source:
        """A source as it would be if another of its servers were its primary.

        Raises:
            UnknownSourceError: The file has no such source.
            SettingsError: The connection is not set, or is no MySQL URL.
        """
        configured = self.source(name)
        return replace(configured, server=self._address(name, configured.settings, connection))

    def _address(self, source: str, settings: SourceSettings, connection: str) -> ServerAddress:
        url = self._connection_url(source, connection)
        with _mistakes_of(connection, source):
            address = ServerAddress.from_url(url)
        return replace(address_beside(self.folder, address), password_command=settings.password_command)

    def group(self, name: str, *, former: Collection[str] = ()) -> Group:
        """A group with its sources.

        Args:
            former: Old sources of switchovers that are in no journal; with a journal, all servers in no group are
                known.

        Raises:
            UnknownSourceError: The file has no such group.
            SettingsError: As for `source`.
        """
        configured = self.groups.get(name)
        if configured is None:
            known = ", ".join(sorted(self.groups)) or "none"
            raise UnknownSourceError(
                f"there is no group {name!r}; the settings have: {known}",
                remedy="A group is a table [groups.NAME] with `sources`; docs/groups.md shows one.",
            )
        taken = {member for group in self.groups.values() for member in group.sources}
        return Group(
            name,
            tuple(map(self.source, sorted(configured.sources))),
            micros_of(configured.max_skew),
            micros_of(configured.clock_bound),
            configured.global_keys,
            configured.journal and path_beside(self.folder, configured.journal),
            tuple(map(self.source, self._servers(self.sources if configured.journal else former, taken))),
            configured.source_gtid_column,
        )

    def _servers(self, names: Collection[str], taken: Collection[str]) -> list[str]:
        """Names of sources that are servers and not taken; of a name that the file does not have, `source` says so."""
        free = sorted(set(names) - set(taken))
        return [name for name in free if name not in self.sources or self.sources[name].kind != TICDC]

    def _connection_url(self, source: str, connection: str) -> str:
        text = self.find_connection(connection)
        if text is None:
            raise SettingsError(
                f"connection {connection!r} is not set",
                source=source,
                remedy=f"Add it in Airflow (Admin, Connections), or {_how_to_set(connection_variable(connection))}.",
            )
        with _mistakes_of(connection, source):
            return connection_as_url(text)


@contextmanager
def _mistakes_of(connection: str, source: str) -> Iterator[None]:
    """Adds to what is wrong with a connection which of them it is."""
    try:
        yield
    except SettingsError as error:
        message = f"connection {connection!r}: {error.message}"
        raise SettingsError(message, remedy=error.remedy, source=source) from None


def _how_to_set(variable: str) -> str:
    url = "mysql://USER:PASSWORD@HOST:PORT/"
    if variable.isidentifier():
        return f"set {variable} to {url}"
    # POSIX, "Name": letters, digits and underscores.
    return f"put `env {quote(f'{variable}={url}')}` before a command, for no shell can export this name"


def connection_variable(connection: str) -> str:
    """The environment variable in which Airflow, and the command line, look for a connection."""
    return f"AIRFLOW_CONN_{connection.upper()}"


def load_settings(environ: Mapping[str, str], find_connection: Callable[[str], str | None] | None = None) -> Settings:
    """Reads the file that `STRATA_SETTINGS` names, or the text that `STRATA_SETTINGS_TEXT` holds.

    Args:
        environ: The environment.
        find_connection: From the id of a connection to its URL (or Airflow's JSON form); by default from `environ`.

    Raises:
        SettingsError: There are no settings, two of them, or they have mistakes; all of these are in the message.
    """
    path, text = environ.get(SETTINGS_VARIABLE), environ.get(TEXT_VARIABLE)
    if path and text:
        raise SettingsError(
            f"{SETTINGS_VARIABLE} and {TEXT_VARIABLE} are both set",
            remedy="Unset one of them: the file and the text may differ.",
        )
    find = find_connection or (lambda name: environ.get(connection_variable(name)))
    if text:
        return parse_settings(text, None, find)
    if not path:
        raise SettingsError(
            f"{SETTINGS_VARIABLE} is not set",
            remedy=f"Let it name a TOML file, or {TEXT_VARIABLE} hold its text; docs/settings.md shows one.",
        )
    return parse_settings(_read_text(path), path, find)


def are_given(environ: Mapping[str, str]) -> bool:
    """Whether an environment has settings, or names them."""
    return bool(environ.get(SETTINGS_VARIABLE) or environ.get(TEXT_VARIABLE))


def _read_text(path: str) -> str:
    try:
        # Editors on Windows put a byte order mark first.
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(
            f"the settings cannot be read: {error.strerror}",
            file=path,
            remedy=f"{SETTINGS_VARIABLE} names the file; docs/settings.md shows one.",
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"the settings are no TOML: {error}", file=path) from None


def parse_settings(text: str, path: str | None, find_connection: Callable[[str], str | None]) -> Settings:
    """The settings in a text.

    Args:
        text: TOML.
        path: Of its file, which need not be there: relative paths begin in its folder. None: the text is in no file,
            and no path may be relative.
        find_connection: As of `load_settings`.

    Raises:
        SettingsError: It has mistakes; all of them are in the message.
    """
    file = path or TEXT_VARIABLE
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings are no TOML: {error}", file=file) from None
    mistakes = Mistakes("the settings have", lambda: key_lines(text))
    folder = None if path is None else Path(path).parent
    top = _take_top(raw, folder, mistakes)
    sources = _take_sources(top, folder, mistakes)
    groups = take_groups(top.get("groups", {}), top.get("sources", {}), mistakes)
    if mistakes:
        raise SettingsError(str(mistakes), file=file, remedy="docs/settings.md names every setting.")
    return Settings(
        lake=path_beside(folder, top["lake"]),
        sources=sources,
        groups=groups,
        fresh_within_minutes=top.get("fresh_within_minutes"),
        rows_in_airflow=top.get("rows_in_airflow", False),
        clock_bound=micros_of(top["clock_bound"]) if "clock_bound" in top else None,
        folder=folder,
        find_connection=find_connection,
    )


def _take_top(raw: dict[str, Any], folder: Path | None, mistakes: Mistakes) -> dict[str, Any]:
    top = read_fields(FileSettings, {"sources": {}, **raw}, (), mistakes, noun="setting")
    lake = top.get("lake", "")
    if "?" in lake or "@" in lake.partition("://")[2]:
        mistakes.add(
            ("lake",),
            "lake holds options or a key: put those of an object store into the environment, as in AWS_ENDPOINT_URL, "
            "AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    elif lake and not is_usable_lake(path_beside(folder, lake)):
        mistakes.add(
            ("lake",),
            "lake: its path must hold no backslash, none of [ ] { } * ?, and no % with two hexadecimal digits, which "
            "Spark and Delta do not take as they stand",
        )
    _check_store(top, (), mistakes)
    check_clock_bound(top, (), mistakes)
    if not top.get("sources"):
        mistakes.add(("sources",), "there is no source: add a table [sources.NAME]")
    return top


def _take_sources(top: dict[str, Any], folder: Path | None, mistakes: Mistakes) -> dict[str, SourceSettings]:
    settings: dict[str, SourceSettings] = {}
    for name, given in top.get("sources", {}).items():
        path = ("sources", name)
        if not NAME.fullmatch(name):
            mistakes.add(path, f"sources.{name}: a name has letters, digits, - and _ (it becomes a folder), at most 64")
        if not isinstance(given, dict):
            mistakes.add(path, f"sources.{name} is not a table")
            continue
        good = read_fields(SourceSettings, given, path, mistakes, noun="setting")
        _check_store(good, path, mistakes)
        if not good.keys() & _STORE:
            good |= {key: top[key] for key in _STORE if key in top}
        for key in ("tables", "exclude", "mirrors"):
            _check_patterns(good.get(key), (*path, key), mistakes)
        _check_columns(good.get("sensitive", ()), (*path, "sensitive"), mistakes)
        _check_others(good.get("copied_from", ()), top["sources"].keys() - {name}, (*path, "copied_from"), mistakes)
        _check_password(good, path, mistakes)
        check_kind({**good, **given}, good.get("kind", MYSQL), path, mistakes)
        if not mistakes:
            settings[name] = SourceSettings(**_beside(folder, good))
    return settings


def _beside(folder: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a source with absolute paths."""
    placed = {"checks": path_beside, "store": store_beside, "url": path_beside}
    return {key: placed[key](folder, value) if key in placed else value for key, value in given.items()}


def _check_password(given: dict[str, Any], path: tuple[str, ...], mistakes: Mistakes) -> None:
    """Checks that the store is elsewhere if the server's password is valid for some minutes only."""
    is_here = given.get("store_connection", given.get("connection")) == given.get("connection")
    if "password_command" in given and "store" not in given and is_here:
        where = (*path, "password_command")
        mistakes.add(where, f"{'.'.join(where)}: the store needs a server with a lasting password: set `store`")


def _check_patterns(patterns: tuple[str, ...] | None, path: tuple[str, ...], mistakes: Mistakes) -> None:
    """Adds to the mistakes the patterns that can match no table of any server."""
    name = ".".join(path)
    if patterns == () and path[-1] == "tables":
        mistakes.add(path, f"{name} is empty, and nothing would be decoded: leave it out for all tables, or name some")
    for pattern in patterns or ():
        if not can_match(pattern):
            mistakes.add(path, f'{name}: "{pattern}" matches no table: it has no dot, as in "{pattern}.*"')


def _check_others(named: tuple[str, ...], others: Collection[str], path: tuple[str, ...], mistakes: Mistakes) -> None:
    for name in named:
        if name not in others:
            mistakes.add(path, f'{".".join(path)}: "{name}" is no other source of these settings')


def _check_columns(patterns: tuple[str, ...], path: tuple[str, ...], mistakes: Mistakes) -> None:
    """Adds to the mistakes the patterns that can match no column of any server."""
    for pattern in patterns:
        if pattern.count(".") < 2:
            mistakes.add(
                path,
                f'{".".join(path)}: "{pattern}" matches no column: it is database.table.column, as in '
                f'"shop.customers.email" or "*.*.{pattern.rpartition(".")[2]}"',
            )


_STORE: Final = ("store", "store_connection")


def _check_store(given: dict[str, Any], path: tuple[str, ...], mistakes: Mistakes) -> None:
    """Checks what a store's URL must not hold, and that the two settings of a store are not used together."""
    where = (*path, "store")
    name, url = ".".join(where), given.get("store", "")
    if "store" in given and "store_connection" in given:
        mistakes.add(where, f"{name} and {name}_connection are two stores: leave one of them out")
    if _holds_password(url):
        mistakes.add(where, f"{name} holds a password: put the URL into a connection, named by store_connection")
    if url and "://" not in url:
        mistakes.add(where, f"{name} is not a URL, as in sqlite:////data/strata.db")
    if url.startswith("sqlite:") and url.partition("//")[2].strip("/") in ("", ":memory:"):
        mistakes.add(where, f"{name} is in memory: every process would have a store of its own")


def _holds_password(url: str) -> bool:
    # Searched in the text: a password that is not escaped correctly is a password too.
    account = url.partition("://")[2].rpartition("@")[0]
    return ":" in account or bool(parse_qs(url.partition("?")[2]).keys() & {"password", "passwd"})
