"""The lines that `strata schema` prints: one JSON object per table, and tables for people.
Not here: the commands (`schema.py`), the answers (`schema/history/historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from rich.markup import escape
from rich.table import Table

from strata.cli.terminal import Terminal
from strata.errors import SchemaGapError
from strata.jobs.run.specs import from_micros
from strata.schema.apply.diff import ColumnAdded, ColumnChanged, ColumnRemoved, diff, lengths_in_doubt
from strata.schema.history.historian import Gap
from strata.schema.history.lineage import lineage, online_changes
from strata.schema.history.versions import EVERY_TABLE, Origin
from strata.schema.model.folding import fold_name
from strata.schema.model.types import shown_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata.schema.apply.diff import Difference
    from strata.schema.history.historian import History, StreamPosition
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import SchemaVersion, StoredEntry
    from strata.schema.model.definition import Column, TableDefinition, TableName

EVERY: Final = "*"
"""Stands for the name where a line speaks of all tables."""
_PAGE_LINES: Final = 1000
_SHOWN_DDL: Final = 200
_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow"}
"""By the first character of a difference."""

Line = dict[str, Any]


# JSON -------------------------------------------------------------------------------------------


def definition_fields(definition: TableDefinition) -> Line:
    """A shape as the lines of `show` and `history` have it."""
    return {
        "columns": [
            {
                "name": column.name,
                "column_type": shown_text(column.column_type),
                "nullable": column.nullable,
                "character_set": column.character_set,
                "collation": column.collation,
                "generated": str(column.generated) if column.generated else None,
                "invisible": column.invisible,
            }
            for column in definition.columns
        ],
        "primary_key": list(definition.primary_key),
        **({"in_doubt": doubts} if (doubts := lengths_in_doubt(definition)) else {}),
    }


def shown_line(executed: str, name: TableName, version: SchemaVersion | Gap) -> Line:
    """One line of `show`."""
    head = {"gtid_executed": executed, "database": name.database, "table": name.table}
    if isinstance(version, Gap):
        return {**head, "gap": version.reason}
    return {**head, **definition_fields(version.definition)}


def history_lines(
    store: SchemaStore, source: str, table: TableName | None, column: str | None = None
) -> Iterator[Line]:
    """The lines of `history`, in stream order."""
    changes = _Changes(store, source, table, column)
    for entry, _, definition, ddl in changes:
        line: Line = {
            "gtid_executed": entry.gtid_executed,
            "database": entry.name.database or EVERY,
            "table": entry.name.table or EVERY,
        }
        if entry.gap is not None:
            line["gap"] = entry.gap
        elif definition is None:
            line["dropped"] = True
        else:
            line |= definition_fields(definition)
        line |= {"gtid": entry.gtid, "ddl": ddl, "origin": str(entry.origin)}
        if entry.renamed_from:
            line["renamed_from"] = entry.renamed_from
        online = changes.online.get((entry.version_id, entry.name))
        if online is not None:
            line["online_change"] = {"tool": online.tool, "copy": str(online.copy), "statements": online.statements}
        drift = changes.drifts.get((entry.seq, entry.name))
        if drift is not None and entry.origin is Origin.BASELINE:
            line["drift"] = drift.texts()
        yield line


class _Changes:
    """Each entry with the shape before it, its own, and the statement; read a page at a time."""

    def __init__(self, store: SchemaStore, source: str, table: TableName | None, column: str | None) -> None:
        entries = store.all_entries(source) if table is None else lineage(store, source, table)
        # That nothing else exists is no change of any table.
        self.entries = [entry for entry in entries if entry.name.table or entry.gap is not None]
        self.online = online_changes(store, source, self.entries)
        self.drifts = {
            (drift.seq, drift.name): TableDifference(drift.name, drift.replayed, drift.found)
            for drift in store.drifts(source)
        }
        self._store, self._column = store, column

    def __iter__(self) -> Iterator[tuple[StoredEntry, TableDefinition | None, TableDefinition | None, str | None]]:
        store, shapes = self._store, _Shapes()
        for at in range(0, len(self.entries), _PAGE_LINES):
            page = self.entries[at : at + _PAGE_LINES]
            store.load_definitions(entry.fingerprint for entry in page if entry.fingerprint)
            ddls = store.ddls(entry.version_id for entry in page)
            for entry in page:
                definition = store.definition(entry.fingerprint) if entry.fingerprint else None
                before = shapes.replace(entry, definition)
                if self._column is None or _touches(before, definition, self._column):
                    yield entry, before, definition, ddls.get(entry.version_id)


class _Shapes:
    """The newest shape of each name, along a history; a renamed table has the shape of its old name before it, but
    one that takes another's place has that one's: so a swap shows what changed under the name."""

    def __init__(self) -> None:
        self._settled: dict[str, TableDefinition | None] = {}
        self._of_this_version: dict[str, TableDefinition | None] = {}
        self._version_id = 0

    def replace(self, entry: StoredEntry, definition: TableDefinition | None) -> TableDefinition | None:
        """Takes the next entry and returns the shape before it. Names swap places within one version."""
        if entry.version_id != self._version_id:
            self._settled |= self._of_this_version
            self._of_this_version, self._version_id = {}, entry.version_id
        self._of_this_version[str(entry.name)] = definition
        own = self._settled.get(str(entry.name))
        return own if own is not None or entry.renamed_from is None else self._settled.get(entry.renamed_from)


def _touches(before: TableDefinition | None, after: TableDefinition | None, column: str) -> bool:
    """Whether a column came, went or changed between two shapes; None is a table that is not there."""
    if before is None or after is None:
        whole = after if before is None else before
        return whole is not None and whole.column(column) is not None
    wanted = fold_name(column)
    touched = (fold_name(name) for difference in diff(before, after) if (name := _column_of(difference)))
    return wanted in touched


def _column_of(difference: Difference) -> str | None:
    if isinstance(difference, ColumnChanged):
        return difference.after.name
    if isinstance(difference, (ColumnAdded, ColumnRemoved)):
        return difference.column.name
    return None


# Differences ------------------------------------------------------------------------------------


class TableDifference(Struct, frozen=True):
    """What differs in one table between two points; one side is None where the table is not there."""

    name: TableName
    before: TableDefinition | None
    after: TableDefinition | None

    @property
    def change(self) -> str:
        """What happened to the table as a whole."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def texts(self) -> list[str]:
        """The differences, a line each; `+`, `-` or `~` in front."""
        if self.before is not None and self.after is not None:
            return [str(difference) for difference in diff(self.before, self.after)]
        whole, sign = (self.after, "+") if self.before is None else (self.before, "-")
        return [f"{sign} column {c.name} {c.column_type}" for c in whole.columns] if whole is not None else []

    def to_json(self) -> Line:
        """One line of `diff`."""
        return {
            "database": self.name.database,
            "table": self.name.table,
            "change": self.change,
            "differences": self.texts(),
        }


def diff_lines(
    history: History, before: StreamPosition, after: StreamPosition, table: TableName | None
) -> list[TableDifference]:
    """The tables that differ, in order of name.

    Raises:
        SchemaGapError: One of them is not known at one of the points.
    """
    old, new = _known_at(history, before, table), _known_at(history, after, table)
    return [
        TableDifference(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _known_at(history: History, position: StreamPosition, table: TableName | None) -> dict[TableName, TableDefinition]:
    known = {}
    for name, version in history.tables(position):
        if name == EVERY_TABLE or (table is not None and name != table):
            continue
        if isinstance(version, Gap):
            history.at(name, position)
            raise SchemaGapError(version.reason, table=str(name))
        known[name] = version.definition
    return known


# For people -------------------------------------------------------------------------------------


def print_definitions(executed: str, found: Sequence[tuple[TableName, SchemaVersion | Gap]]) -> None:
    """Tables with their columns."""
    console = _console()
    console.print(f"GTID set {executed or '(empty)'}", highlight=False)
    for name, version in found:
        console.print()
        if isinstance(version, Gap):
            console.print(f"[bold]{escape(str(name))}[/bold] [red]not known: {escape(version.reason)}[/red]")
            continue
        since = version.gtid or f"transaction {version.seq}"
        console.print(f"[bold]{escape(str(name))}[/bold] [dim]since {since}, {version.origin}[/dim]", highlight=False)
        key = version.definition.primary_key
        columns = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for column in version.definition.columns:
            mark = "[yellow]key[/yellow]" if column.name in key else ""
            columns.add_row(f"  {escape(column.name)}", escape(_described(column)), mark)
        console.print(columns, highlight=False)
        _print_doubts(console, version.definition)


def print_history(store: SchemaStore, source: str, table: TableName | None, column: str | None) -> None:
    """Every change, what it did and the statement."""
    console = _console()
    changes = _Changes(store, source, table, column)
    within = {part for online in changes.online.values() for part in online.parts} if table is None else set()
    for entry, before, definition, ddl in changes:
        if (entry.version_id, entry.name) in within:
            continue
        online = changes.online.get((entry.version_id, entry.name))
        name = str(entry.name) if entry.name.table else "all tables"
        when = f"{from_micros(entry.committed_at):%Y-%m-%d %H:%M:%S}"
        head = f"[dim]{when}[/dim] [bold]{escape(name)}[/bold]"
        came_from = f" from {escape(entry.renamed_from)}" if entry.renamed_from else ""
        console.print(
            f"{head}{came_from} [dim]{entry.gtid or f'transaction {entry.seq}'} {entry.origin}[/dim]", highlight=False
        )
        if entry.gap is not None:
            console.print(f"  [red]not known from here: {escape(entry.gap)}[/red]", highlight=False)
        elif definition is None:
            console.print("  [red]gone[/red]")
        else:
            _print_differences(console, TableDifference(entry.name, before, definition).texts())
            _print_doubts(console, definition)
        drift = changes.drifts.get((entry.seq, entry.name)) if entry.origin is Origin.BASELINE else None
        if drift is not None:
            console.print("  [red]drift: the server had it so, and the stream had not:[/red]", highlight=False)
            _print_differences(console, drift.texts())
        if online is not None:
            console.print(f"  [cyan]online change by {online.tool}, through {escape(str(online.copy))}[/cyan]")
        for statement in (*(online.statements if online else ()), *([ddl] if ddl else [])):
            console.print(f"  [dim]{escape(_one_line(statement))}[/dim]", highlight=False)


def print_diff(lines: Sequence[TableDifference]) -> None:
    """Table by table, what differs."""
    console = _console()
    for line in lines:
        console.print(f"[bold]{escape(str(line.name))}[/bold] {line.change}", highlight=False)
        _print_differences(console, line.texts())
    if not lines:
        console.print("no table differs")


def _print_differences(console: Terminal, texts: Iterable[str]) -> None:
    for text in texts:
        colour = _COLOURS.get(text[0], "default")
        console.print(f"  [{colour}]{escape(text)}[/{colour}]", highlight=False)


def _print_doubts(console: Terminal, definition: TableDefinition) -> None:
    for text in lengths_in_doubt(definition):
        console.print(f"  [yellow]{escape(text)}[/yellow]", highlight=False)


def _described(column: Column) -> str:
    """A column in one line, nearly as SHOW CREATE TABLE writes it."""
    default = None
    if column.default is not None:
        default = f"DEFAULT {column.default}" if column.default_is_expression else f"DEFAULT '{column.default}'"
    parts = (
        column.column_type,
        column.collation and f"COLLATE {column.collation}",
        column.generated and f"AS ({column.generation_expression}) {column.generated.upper()}",
        None if column.nullable else "NOT NULL",
        default,
        column.on_update and f"ON UPDATE {column.on_update}",
        "AUTO_INCREMENT" if column.auto_increment else None,
        "INVISIBLE" if column.invisible else None,
    )
    return " ".join(part for part in parts if part)


def _one_line(ddl: str) -> str:
    text = " ".join(ddl.split())
    return text if len(text) <= _SHOWN_DDL else text[:_SHOWN_DDL] + "..."


def _console() -> Terminal:
    # Lines are cut by nobody: a pipe has no width.
    return Terminal(soft_wrap=True)
