"""The names of Airflow's assets, in one scheme, and what an event of each carries.

| asset | an event is | it carries |
|---|---|---|
| `strata://SOURCE/DATABASE/TABLE` | an interval of a table, published | rows, GTID set, versions, verdict, run |
| `strata://SOURCE/DATABASE/TABLE/mirror` | a mirror that changed | its position, rows, Delta version |
| `strata://SOURCE/schema` | a schema version | its number, statement, tables, GTID |
| `strata://SOURCE/ddl` | a DDL statement on a watched server | GTID, tables, statement |
| `strata://GROUP/cut` | a cut that all sources of a group have passed | its token, and the position of each source |

Names are escaped as in URLs: a raw `#`, `?` or `/` would name the asset of another table.

Not here: who sends the events (`steps.py`, `airflow/plugins/replication_watcher.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import AssetWatcher

_PLAIN = "$"
"""Not escaped, besides letters, digits and `_.-~`: MySQL allows it in names without quotes."""
PUBLISHED = AssetAlias("strata_published")
"""The events of all tables."""
MIRRORS = AssetAlias("strata_mirrors")
"""The events of all mirrors."""
VERSIONS = AssetAlias("strata_schema_versions")
"""The schema versions of all sources."""


def table_asset(source: str, table: str) -> Asset:
    """The asset of a change table, by `database.table`."""
    return Asset(f"strata://{source}/{_path(table)}")


def mirror_asset(source: str, table: str) -> Asset:
    """The asset of a mirror, by `database.table`."""
    return Asset(f"strata://{source}/{_path(table)}/mirror")


def schema_asset(source: str) -> Asset:
    """The asset of a source's schema versions."""
    return Asset(f"strata://{source}/schema")


def ddl_asset(source: str, watchers: Sequence[AssetWatcher] = ()) -> Asset:
    """The asset of the DDL of a source whose server is watched."""
    return Asset(f"strata://{source}/ddl", watchers=list(watchers))


def cut_asset(group: str) -> Asset:
    """The asset of a group's common cuts."""
    return Asset(f"strata://{group}/cut")


def _path(table: str) -> str:
    database, _, name = table.partition(".")
    return f"{quote(database, safe=_PLAIN)}/{quote(name, safe=_PLAIN)}"
