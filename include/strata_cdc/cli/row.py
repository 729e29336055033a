"""`strata row`: the history of rows, whose value each column has, what differs between two moments.
Not here: the answers (`past/rows.py`), their text (`past/row_texts.py`)."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.table_name import table_name
from strata_cdc.cli.terminal import say, say_exactly
from strata_cdc.counted import counted
from strata_cdc.errors import Usage, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from strata_cdc.past.row_history import HistoryLine
    from strata_cdc.past.rows import BlamedRow, TableDiff
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.ticdc.landed_steps import CommitPlaces


class RowFormat(StrEnum):
    """What the answer is written as."""

    TEXT = "text"
    JSONL = "jsonl"


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE [KEY]...",
        help="The table as database.table, then a value for each column of the key, in its order.",
        show_default=False,
    ),
]
TableOption = Annotated[
    str | None, typer.Option("--table", help="The table; then all words are the key.", show_default=False)
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="The key as JSON, as in '{\"id\": 7}', instead of words.", show_default=False),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="After this moment: a time (UTC unless it has a zone; the last transaction committed up to it), or a GTID "
        "set.",
        show_default=False,
    ),
]
To = Annotated[
    str | None, typer.Option("--to", help="Up to this moment; by default the newest one.", show_default=False)
]
Format = Annotated[RowFormat, typer.Option("--format", help="What the answer is written as.")]


GROUP = typer.Typer(no_args_is_help=True, help="The history of rows, and who changed what.")


@GROUP.command()
def history(  # noqa: PLR0913, PLR0917  the options of the command
    context: typer.Context,
    words: Words = None,
    table: TableOption = None,
    key: KeyOption = None,
    where: Annotated[
        str | None,
        typer.Option(help="Instead of a key: rows that meet this condition of MySQL's SQL.", show_default=False),
    ] = None,
    source: SourceName = None,
    since: From = None,
    until: To = None,
    format_: Format = RowFormat.TEXT,
) -> None:
    """Shows each change of the rows that had a key, under all of their keys and names."""
    from strata_cdc.past.row_texts import history_object
    from strata_cdc.past.rows import PastRows

    name, values = _row_of(words, table, key)
    if bool(values or key) == (where is not None):
        raise Usage(
            "which rows: a key, or a condition",
            remedy="`strata row history shop.orders 7`, or `--where \"state = 'new'\"` instead of the key.",
        )
    with PastRows(source_of(source)) as rows:
        values = values if key is None else rows.words_of_key(name, key, at=until)
        lines = rows.history(name, values, where=where, since=since, until=until)
        if _is_json(context, format_):
            _write_lines(map(history_object, lines))
        else:
            _show_history(lines, rows.commits)


@GROUP.command()
def blame(
    context: typer.Context,
    words: Words = None,
    table: TableOption = None,
    key: KeyOption = None,
    source: SourceName = None,
    at: Annotated[
        str | None,
        typer.Option(help="The moment: a time or a GTID set; by default the newest one.", show_default=False),
    ] = None,
    format_: Format = RowFormat.TEXT,
) -> None:
    """Shows for each column of a row which change, or which DDL, gave it its value."""
    from strata_cdc.past.row_texts import blame_objects
    from strata_cdc.past.rows import PastRows

    name, values = _row_of(words, table, key)
    if not values and key is None:
        raise Usage("which row", remedy="`strata row blame shop.orders 7` names it by its key.")
    with PastRows(source_of(source)) as rows:
        row = rows.blame(name, values if key is None else rows.words_of_key(name, key, at=at), at=at)
    if _is_json(context, format_):
        _write_lines(blame_objects(row))
    else:
        _show_blame(row, rows.commits)


@GROUP.command()
def diff(
    context: typer.Context,
    words: Words = None,
    table: TableOption = None,
    key: KeyOption = None,
    source: SourceName = None,
    since: From = None,
    until: To = None,
    format_: Format = RowFormat.TEXT,
) -> None:
    """Shows the rows of a table that differ between two moments."""
    from strata_cdc.past.row_texts import diff_objects
    from strata_cdc.past.rows import PastRows

    name, values = _row_of(words, table, key)
    if since is None:
        raise Usage("from which moment", remedy="`--from '2026-02-01 12:00:00'`, or a GTID set.")
    with PastRows(source_of(source)) as rows:
        values = values if key is None else rows.words_of_key(name, key, at=until)
        differences = rows.diff(name, values, since=since, until=until)
        if _is_json(context, format_):
            _write_lines(diff_objects(differences))
        else:
            _show_diff(differences)


def _row_of(words: list[str] | None, table: str | None, key: str | None) -> tuple[TableName, list[str]]:
    """The table, and the values of the key that are words."""
    values = list(words or ())
    if table is None and not values:
        raise Usage("which table", remedy="`strata row history shop.orders 7`, or `--table shop.orders`.")
    name = table_name(values.pop(0) if table is None else table)
    if key is not None and values:
        raise Usage(f"the key is there twice: {' '.join(values)}, and {key}", remedy="Leave one of them out.")
    return name, values


def _is_json(context: typer.Context, format_: RowFormat) -> bool:
    return format_ is RowFormat.JSONL or bool(context.obj["json"])


def _write_lines(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        say_exactly(json.dumps(line, ensure_ascii=False))


def _show_history(lines: Iterable[HistoryLine], commits: CommitPlaces | None) -> None:
    from strata_cdc.past.row_history import HistoryChange
    from strata_cdc.past.row_texts import history_text

    changes = 0
    for line in lines:
        changes += isinstance(line, HistoryChange)
        number = line.number if isinstance(line, HistoryChange) else 0
        for text in history_text(line, shows_number=number > 1, commits=commits):
            if text.strip():
                say(one_line(text))
    say(counted(changes, "change") if changes else "no change of such a row is known", err=True)


def _show_blame(row: BlamedRow, commits: CommitPlaces | None) -> None:
    from strata_cdc.past.row_texts import blame_text

    for text in blame_text(row, commits):
        say(one_line(text))
    say(f"{row.table} as of transaction {row.moment.seq:,}", err=True)


def _show_diff(differences: TableDiff) -> None:
    from strata_cdc.past.row_texts import difference_text

    if differences.before is None:
        say(f"the table did not exist at transaction {differences.first.seq:,}")
    elif differences.before.name != differences.after.name:
        say(f"the table was {differences.before.name}")
    _show_columns(differences)
    if differences.doubt is not None:
        say(one_line(f"rows may be shown as one that went and one that came: {differences.doubt}"))
    before = (differences.before or differences.after).definition
    seen = dict.fromkeys(("added", "removed", "changed"), 0)
    for row in differences.rows:
        seen[row.kind] += 1
        for text in difference_text(row, before, differences.after.definition):
            say(one_line(text))
    words = ", ".join(f"{number:,} {kind}" for kind, number in seen.items())
    say(f"{words} between transactions {differences.first.seq:,} and {differences.second.seq:,}", err=True)


def _show_columns(differences: TableDiff) -> None:
    for column in differences.columns:
        if column.before is None or column.after is None:
            say(one_line(f"column {'+' if column.before is None else '-'} {column.after or column.before}"))
        else:
            say(one_line(f"column ~ {column.before} -> {column.after}"))
