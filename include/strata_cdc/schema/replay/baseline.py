"""The schema at the start of a stream, and reading it from a file of CREATE statements (`mysqldump --no-data`).
Not here: the grammar of the statements (`ddl/`), the consequences for the history (`schema/tracker/track.py`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.errors import StrataError, Usage
from strata_cdc.flavour import NEWEST, Flavour
from strata_cdc.schema.ddl.changes import CreateDatabase, Unreadable
from strata_cdc.schema.ddl.context import STRICT_TRANS_TABLES, DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.ddl.script import ScriptStatement, split_script
from strata_cdc.schema.history.versions import SYSTEM_DATABASES, DatabaseEntry, NamePresence, TableChange
from strata_cdc.schema.model.charsets import charset_of_collation
from strata_cdc.schema.model.definition import TableName, Unknown
from strata_cdc.schema.replay.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.model.view import ViewDefinition

_OTHERS: Final = "the baseline does not name its database"
_DUMPED_DATABASE = re.compile(r"^-- Host: .*\bDatabase: (\S+)\s*$", re.MULTILINE)
_DUMPED_VERSION = re.compile(r"^-- Server version\s+(\S+)", re.MULTILINE)
_HEAD_CHARACTERS = 2000


class Baseline(Struct, frozen=True):
    """Tables, databases and views at one moment."""

    databases: tuple[DatabaseEntry, ...]
    tables: tuple[TableChange, ...]
    views: Mapping[TableName, ViewDefinition | None] = field(default_factory=dict)
    """None: its text is not known."""
    others_unknown: str | None = None
    """Why there may be tables in other databases; None if there are none. The named databases have no other tables."""


def read_baseline_file(path: str, *, lower_case_table_names: int = 0) -> Baseline:
    """Like `read_baseline`, for a file.

    Raises:
        Usage: The file does not exist, or is not UTF-8, or as for `read_baseline`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Usage(f"the baseline cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError as error:
        raise Usage("the baseline is not UTF-8", file=path, offset=error.start) from None
    return read_baseline(text, path, lower_case_table_names=lower_case_table_names)


def read_baseline(text: str, file: str, *, lower_case_table_names: int = 0) -> Baseline:
    """The schema that a script makes on an empty server. A database that it names has no other tables.

    A dump of all databases (it contains `mysql`) shows that there are no other databases either. A table whose
    statement is not understood becomes a gap.

    Args:
        text: The script.
        file: Its path, for messages.
        lower_case_table_names: Of the server from which it was dumped.

    Raises:
        Usage: It is not known which table a statement makes (for example without a default database), or nothing is
            made.
    """
    head = text[:_HEAD_CHARACTERS]
    version = _DUMPED_VERSION.search(head)
    dumped = _DUMPED_DATABASE.search(head)
    context = DdlContext(
        default_database=dumped[1] if dumped else "",
        sql_mode=STRICT_TRANS_TABLES,  # the lengths of keys in a dump are final: none is cut
        flavour=Flavour.parse(version[1]) if version else NEWEST,
        lower_case_table_names=lower_case_table_names,
    )
    catalog = Catalog(lower_case_table_names=lower_case_table_names)
    named: set[str] = set()
    for statement in split_script(text):
        if statement.used_database is not None:
            context = replace(context, default_database=statement.used_database)
            continue
        changes = _read(statement, context, file)
        named |= {c.database for c in changes if isinstance(c, CreateDatabase)}
        catalog.apply(changes)
    if not catalog.databases:
        raise Usage(
            "the baseline makes no tables",
            file=file,
            remedy="Dump it with `mysqldump --no-data --databases DB...`, or `--all-databases`.",
        )
    return _from_catalog(catalog, complete=bool(named & {"mysql"}))


def _read(statement: ScriptStatement, context: DdlContext, file: str) -> Sequence[Change]:
    try:
        changes = read_ddl_or_gap(statement.text, context)
    except StrataError as error:
        raise error.located(file=file, offset=statement.offset) from None
    for change in changes:
        if isinstance(change, Unreadable) and not change.tables and change.database is None:
            raise Usage(
                f"a statement of the baseline cannot be understood: {change.reason}",
                file=file,
                offset=statement.offset,
                remedy="Put `USE database;` before it, or dump with `mysqldump --no-data --databases DB...`.",
            )
    return changes


def _from_catalog(catalog: Catalog, *, complete: bool) -> Baseline:
    users = {name: known for name, known in catalog.databases.items() if name not in SYSTEM_DATABASES}
    return Baseline(
        databases=tuple(
            DatabaseEntry(
                name,
                NamePresence.PRESENT,
                charset_of_collation(known.collation) if known.collation else None,
                known.collation,
            )
            for name, known in users.items()
        ),
        tables=tuple(
            TableChange(name, gap=state.reason) if isinstance(state, Unknown) else TableChange(name, state)
            for name, state in catalog
            if name.database in users
        ),
        views=_views(catalog, users),
        others_unknown=None if complete else _OTHERS,
    )


def _views(catalog: Catalog, databases: Iterable[str]) -> dict[TableName, ViewDefinition | None]:
    return {
        TableName(name, view): definition
        for name in databases
        for view, definition in sorted(catalog.databases[name].views.items())
    }
