"""What `strata schema` shows people: tables, changes, differences.
Not here: the commands (`schema.py`), the answers and their JSON lines (`schema/answers/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

from strata_cdc.cli.terminal import Terminal
from strata_cdc.clock import second_text
from strata_cdc.errors import one_line
from strata_cdc.schema.apply.diff import facts_in_doubt
from strata_cdc.schema.history.historian import Gap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.answers.changes import ShownChange
    from strata_cdc.schema.answers.differences import TableDifference
    from strata_cdc.schema.answers.tables import TablesAt
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.row_effects import RowEffect
    from strata_cdc.ticdc.landed_steps import CommitPlaces

_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow"}
"""By the first character of a difference."""


def print_definitions(tables: TablesAt) -> None:
    """Tables with their columns."""
    console = _console()
    if tables.executed:
        console.print(f"GTID set {tables.executed}\n", highlight=False)
    for number, (name, version) in enumerate(tables.tables):
        if number:
            console.print()
        if isinstance(version, Gap):
            console.print(f"[bold]{escape(str(name))}[/bold] [red]not known: {escape(version.reason)}[/red]")
            continue
        since = version.gtid or f"transaction {version.seq}"
        by = f"since {since}, {version.origin.shown}"
        console.print(f"[bold]{escape(str(name))}[/bold] [dim]{by}[/dim]", highlight=False)
        key = version.definition.primary_key
        columns = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for column in version.definition.columns:
            mark = "[yellow]key[/yellow]" if column.name in key else ""
            columns.add_row(f"  {escape(column.name)}", escape(_described(column)), mark)
        console.print(columns, highlight=False)
        _print_doubts(console, version.definition)


def print_history(changes: Iterable[ShownChange], commits: CommitPlaces | None = None) -> None:
    """Every change, what it did and the statement; `commits` of a TiCDC sink."""
    console = _console()
    for change in changes:
        entry, online = change.entry, change.online
        console.print(_head(entry, commits), highlight=False)
        if entry.gap is not None:
            console.print(f"  [red]not known from here: {escape(entry.gap)}[/red]", highlight=False)
        elif change.after is None:
            console.print("  [red]gone[/red]")
        else:
            _print_differences(console, change.differences())
            _print_effect(console, change.effect if change.has_effect else None)
            _print_doubts(console, change.after)
        if change.drift is not None:
            console.print("  [red]drift: the server had it so, and the stream had not:[/red]", highlight=False)
            _print_differences(console, change.drift.texts())
        if online is not None:
            console.print(f"  [cyan]online change by {online.tool}, through {escape(str(online.copy))}[/cyan]")
        statements = (*(online.statements if online else ()), change.ddl or "")
        for line in (line for statement in statements for line in statement.strip().splitlines()):
            console.print(f"  [dim]{escape(line)}[/dim]", highlight=False)


def _head(entry: StoredEntry, commits: CommitPlaces | None) -> str:
    """When, which table, by which transaction and where in the server's binlog, or in a sink."""
    name = str(entry.name) if entry.name.table else "all tables"
    came_from = f" from {escape(str(entry.renamed_from))}" if entry.renamed_from else ""
    where = f"{escape(entry.binlog_file)} @ {entry.binlog_pos}" if entry.binlog_file else ""
    where = where if commits is None else commits.text(entry.seq)
    by = " ".join(filter(None, (entry.made_by, where, entry.origin.shown if entry.is_statement else "")))
    when = second_text(entry.committed_at)
    return f"[dim]{when}[/dim] [bold]{escape(name)}[/bold]{came_from} [dim]{by}[/dim]"


def print_differences(differences: Sequence[TableDifference]) -> None:
    """Table by table, what differs."""
    console = _console()
    for difference in differences:
        console.print(f"[bold]{escape(str(difference.name))}[/bold] {difference.change}", highlight=False)
        _print_differences(console, difference.texts())
        _print_effect(console, difference.effect)
    if not differences:
        console.print("no table differs")


def _print_differences(console: Terminal, texts: Iterable[str]) -> None:
    for text in texts:
        colour = _COLOURS.get(text[0], "default")
        console.print(f"  [{colour}]{escape(one_line(text))}[/{colour}]", highlight=False)


def _print_effect(console: Terminal, effect: RowEffect | None) -> None:
    """What becomes of rows, if the differences do not show it."""
    if effect is not None and effect.text:
        console.print(f"  [cyan]rows: {escape(effect.text)}[/cyan]", highlight=False)


def _print_doubts(console: Terminal, definition: TableDefinition) -> None:
    for text in facts_in_doubt(definition):
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


def _console() -> Terminal:
    # Lines are cut by nobody: a pipe has no width.
    return Terminal(markup=True, soft_wrap=True)
