"""`strata undo`: SQL that takes changes back, printed and never executed; `strata redo` has the same options.
Not here: the statements (`past/undo/`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.output_file import open_output
from strata_cdc.cli.table_name import table_name
from strata_cdc.cli.terminal import say
from strata_cdc.counted import counted
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.past.undo.choice import Choice
    from strata_cdc.past.undo.undo import ChangeScript


class ScriptFormat(StrEnum):
    """What the statements are written as."""

    SQL = "sql"
    JSONL = "jsonl"


class SetColumns(StrEnum):
    """Which columns an UPDATE sets."""

    CHANGED = "changed"
    ROW = "row"


Gtids = Annotated[
    str | None,
    typer.Option(
        "--gtid", "--gtid-set", help="Transactions: a GTID set; of MariaDB, GTIDs with commas.", show_default=False
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--from", help="Transactions committed at this time (UTC) or later.", show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option("--to", "--until", help="Transactions committed at this time (UTC) or earlier.", show_default=False),
]
OfTables = Annotated[
    list[str] | None,
    typer.Option("--table", help="A table, as database.table; may be repeated. By default all.", show_default=False),
]
Where = Annotated[
    str | None,
    typer.Option(
        help="Changes of rows that meet a condition before or after the change, as in 'id BETWEEN 10 AND 20'; needs "
        "one `--table`.",
        show_default=False,
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        help="Changes of one row, by its key; a key of several columns with commas. May be repeated; needs one "
        "`--table`.",
        show_default=False,
    ),
]
Statement = Annotated[
    str | None,
    typer.Option(
        help="Changes of the clients' statements that have this text in them; needs servers that log statements.",
        show_default=False,
    ),
]
OfColumns = Annotated[
    SetColumns,
    typer.Option(help="What an UPDATE sets: the columns that the change touched, or all columns of the row."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only counts, conflicts, and what is skipped.")]
Form = Annotated[ScriptFormat, typer.Option("--format", help="What the statements are written as.")]
Out = Annotated[str, typer.Option(help="A file for the script; - is standard output.")]


def command_of(direction: str, summary: str) -> Callable[..., None]:
    """The function of a command: `undo`, or `redo` with the same options. `summary` is its help."""

    def command(  # noqa: PLR0913, PLR0917  the options of the command
        context: typer.Context,
        source: SourceName = None,
        gtid: Gtids = None,
        since: Since = None,
        until: Until = None,
        table: OfTables = None,
        where: Where = None,
        key: Keys = None,
        statement: Statement = None,
        columns: OfColumns = SetColumns.CHANGED,
        dry_run: DryRun = False,  # noqa: FBT002  an option
        format_: Form = ScriptFormat.SQL,
        out: Out = "-",
    ) -> None:
        choice = replace(_choice(gtid, since, until, table, where, key), statement=statement)
        _run(context, source, choice, direction, columns, format_, out, is_dry=dry_run)

    command.__doc__ = summary
    return command


def _choice(
    gtid: str | None,
    since: str | None,
    until: str | None,
    tables: list[str] | None,
    where: str | None,
    keys: list[str] | None,
) -> Choice:
    from strata_cdc.past.undo.choice import Choice, ChosenGtids

    if (where is not None or keys) and len(tables or ()) != 1:
        raise Usage("a condition or a key is one of a table", remedy="Name it with `--table`, once.")
    return Choice(
        tuple(map(table_name, tables or ())),
        None if gtid is None else ChosenGtids.parse(gtid),
        _time("--from", since),
        _time("--to", until),
        where,
        tuple(tuple(part.strip() for part in key.split(",")) for key in keys or ()),
    )


def _time(option: str, text: str | None) -> int | None:
    from strata_cdc.past.moment import point_of

    if text is None:
        return None
    point = point_of(text)
    if not isinstance(point, int):
        raise Usage(f"{text!r} is no time", remedy=f"`{option} '2026-02-01 12:00:00'`; transactions: `--gtid`.")
    return point


def _run(
    context: typer.Context,
    source: str | None,
    choice: Choice,
    direction: str,
    columns: str,
    format_: ScriptFormat,
    out: str,
    *,
    is_dry: bool,
) -> None:
    from strata_cdc.past.undo.script import json_lines, script_lines
    from strata_cdc.past.undo.steps import ColumnChoice, Direction
    from strata_cdc.past.undo.undo import ChangeScript

    is_json = format_ is ScriptFormat.JSONL or context.obj["json"]
    with (
        ChangeScript(source_of(source), choice, Direction(direction), ColumnChoice(columns)) as made,
        open_output(out) as file,
    ):
        if is_dry:
            file.writelines(f"{line}\n" for line in _counts(made, is_json=is_json))
            return
        file.writelines(f"{line}\n" for line in (json_lines if is_json else script_lines)(made))
        _summary(made)


def _counts(made: ChangeScript, *, is_json: bool) -> Iterator[str]:
    from strata_cdc.past.undo.script import dry_json_lines, header

    if is_json:
        yield from dry_json_lines(made)
        return
    for _ in made.outcomes():
        pass
    yield from (line.removeprefix("-- ") for line in header(made.report))


def _summary(made: ChangeScript) -> None:
    report = made.report
    left = [
        text
        for count, text in (
            (report.conflict_count, counted(report.conflict_count, "conflict")),
            (report.skipped.total(), f"{counted(report.skipped.total(), 'change')} skipped"),
        )
        if count
    ]
    say("; ".join((counted(sum(report.written.values()), "statement"), *left)), err=True)


undo = command_of("undo", "Prints SQL that takes changes back, for the tables as they are now; nothing is executed.")
