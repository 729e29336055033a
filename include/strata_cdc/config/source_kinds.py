"""The kinds of sources in the settings: which of the settings a kind needs, and which mean nothing for it.
Not here: the settings (`settings.py`), reading a TiCDC folder (`ticdc/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Meta

from strata_cdc.errors import SourceSettingsError, Usage

if TYPE_CHECKING:
    from strata_cdc.fields import Mistakes

MYSQL: Final = "mysql"
"""A server with a binlog; MariaDB, too: the flavour is found on the server. `"server"` means the same."""
TICDC: Final = "ticdc"

SourceKind = Annotated[Literal["mysql", "server", "ticdc"], Meta(description='either "mysql" or "ticdc"')]
BinaryEncoding = Annotated[Literal["base64", "hex"], Meta(description='either "base64" or "hex"')]
SinkText = Annotated[str, Meta(description="a text, which may be empty")]

OF_SINKS: Final = ("url", "null", "binary_encoding", "time_zone")
"""Settings of the folder of a TiCDC sink."""
OF_SERVERS: Final = (
    "connection",
    "replicas",
    "password_command",
    "server_id",
    "land_mb_per_second",
    "land_from",
    "lineage",
    "copied_from",
    "track_schema_versions",
    "watch_replication_stream",
    "mirror_read_again",
    "dump_parallel",
    "dump_chunk_mb",
    "dump_pause_ms",
    "reconcile_keys",
    "reconcile_rows",
    "reconcile_pause_ms",
)
"""Settings that mean nothing without a server."""


def no_server(source: str) -> SourceSettingsError:
    """The error of what needs a server, for a source that has none."""
    return SourceSettingsError(
        "it is the folder of a TiCDC sink, and this needs a server",
        source=source,
        remedy="Leave it out for this source: docs/ticdc.md has what works without a server.",
    )


def no_position(source: str, why: str) -> Usage:
    """The error of a position that means nothing for the folder of a TiCDC sink."""
    return Usage(
        f"the source is the folder of a TiCDC sink, and {why}",
        source=source,
        remedy="Give a time, or a commit timestamp of TiDB, as in `449012345678901234`; a stream takes tokens, too.",
    )


def no_gtids(source: str, gtid_set: str) -> Usage:
    """The error of a run of a GTID set, for the folder of a TiCDC sink."""
    return Usage(
        f"the source is the folder of a TiCDC sink, and {gtid_set!r} is a GTID set",
        source=source,
        remedy="Give a span of time instead.",
    )


def check_kind(given: dict[str, Any], kind: str, path: tuple[str, ...], mistakes: Mistakes) -> None:
    """Adds to the mistakes the settings that a source of its kind lacks, and those that mean nothing for it."""
    name = ".".join(path)
    wrong = OF_SERVERS if kind == TICDC else OF_SINKS
    for key in wrong:
        if key in given:
            other = "a server" if kind == TICDC else f'the folder of a TiCDC sink (`kind = "{TICDC}"`)'
            mistakes.add((*path, key), f"{name}.{key} is for {other}: leave it out")
    if kind != TICDC and "connection" not in given:
        mistakes.add(
            (*path, "connection"), f"{name}.connection is missing: the id of the connection to the server, a text"
        )
    if kind == TICDC and "url" not in given:
        mistakes.add((*path, "url"), f"{name}.url is missing: the folder or URL of the TiCDC sink, a text")
    if kind == TICDC and not given.keys() & {"store", "store_connection"}:
        mistakes.add(
            (*path, "store"),
            f"{name}.store is missing: there is no server that could hold the store, as in sqlite:////data/strata.db",
        )


def is_sink(given: Any) -> bool:
    """Whether a table of a source in a file is that of a TiCDC sink."""
    return isinstance(given, dict) and given.get("kind") == TICDC
