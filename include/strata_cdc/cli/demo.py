"""`strata demo`: a small recorded binlog with DDL in the middle, decoded by Strata, and beside it what becomes of the
same rows where today's schema is used for them. No server is needed.
Not here: decoding files of one's own (`decode.py`), the demo with a server (`scripts/`)."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import typer
from msgspec import Struct

from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from strata_cdc.pipeline.decode.decode_files import FileStep
    from strata_cdc.schema.model.definition import TableDefinition

BINLOG: Final = files("strata_cdc.cli") / "first_look" / "shop.binlog"
"""Recorded by MySQL 9.7 with its default settings, from the statements of `shop.sql` beside it."""
SOURCE: Final = "demo"


class DemoStatement(Struct, frozen=True):
    """A DDL statement of the file."""

    seq: int
    statement: str


class DemoRow(Struct, frozen=True):
    """An image of a row: the last one that its event has."""

    seq: int
    operation: str
    image: dict[str, Any]
    """By the schema that was true for it."""
    late: dict[str, Any] | None
    """By the schema at the file's end: names by position, labels by number. None if the number of values differs."""
    values: int
    columns: int
    """How many columns the table has at the file's end."""


def read_demo(binlog: Traversable | Path = BINLOG) -> list[DemoStatement | DemoRow]:
    """The statements and rows of a binlog file, in its order."""
    from strata_cdc.pipeline.decode.decode_files import decode_files, decode_files_physically, track_in_memory
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.stream_positions import AtSeq
    from strata_cdc.schema.model.definition import TableName

    path = str(binlog)
    tracked = track_in_memory([path], SOURCE, None)
    if tracked.fault is not None:
        raise tracked.fault
    versions = tracked.versions
    statements = {entry.seq: versions.ddl(entry.version_id) for entry in versions.all_entries(SOURCE)}
    decoded = list(_rows(decode_files([path], versions, SOURCE, wanted=lambda _: True)))
    raw = list(_rows(decode_files_physically([path], wanted=lambda _: True)))
    history, end = History(versions, SOURCE), AtSeq(max(statements))
    shown: list[DemoStatement | DemoRow] = [
        DemoStatement(seq, statement) for seq, statement in statements.items() if statement
    ]
    for line, physical in zip(decoded, raw, strict=True):
        definition = history.at(TableName(line["database"], line["table"]), end).definition
        values = list(_image(physical).values())
        late = _with_schema(definition, values)
        shown.append(DemoRow(line["seq"], line["op"], _image(line), late, len(values), len(definition.columns)))
    return sorted(shown, key=lambda item: item.seq)


def _rows(steps: Iterable[FileStep]) -> Iterator[dict[str, Any]]:
    from strata_cdc.changes.jsonl import JsonLines
    from strata_cdc.changes.port import ChangeBatch

    lines = JsonLines()
    for step in steps:
        if isinstance(step, ChangeBatch):
            lines.write(step.table, step.definition, step.batch)
    yield from (json.loads(line) for line in lines.drain())


def _image(line: dict[str, Any]) -> dict[str, Any]:
    image: dict[str, Any] = line["after"] or line["before"]
    return image


def _with_schema(definition: TableDefinition, values: list[Any]) -> dict[str, Any] | None:
    """What a reader makes of values that knows only this schema."""
    from strata_cdc.schema.model.types import parse_column_type

    if len(values) != len(definition.columns):
        return None
    named = zip(definition.columns, values, strict=True)
    return {column.name: _label(parse_column_type(column.column_type).labels, value) for column, value in named}


def _label(labels: tuple[str, ...], value: Any) -> Any:
    """The label of an ENUM by its number."""
    if labels and isinstance(value, int) and 0 < value <= len(labels):
        return labels[value - 1]
    return value


def demo(context: typer.Context) -> int:
    """Decodes a small recorded binlog with DDL in the middle, beside what today's schema makes of it. Needs nothing."""
    shown = read_demo()
    if context.obj["json"]:
        for item in shown:
            print_line(item)
        return 0
    terminal = Terminal(markup=True)
    wrong = 0
    for item in shown:
        if isinstance(item, DemoStatement):
            terminal.print(f"[dim]:{item.seq:<3} {item.statement}[/dim]", highlight=False)
            continue
        is_wrong = item.late != item.image
        wrong += is_wrong
        terminal.print(f":{item.seq:<3} {item.operation:<7}[green]{_text(item.image)}[/green]", highlight=False)
        if is_wrong:
            terminal.print(f"[red]{'by the schema of now':>25}  {_late_text(item)}[/red]", highlight=False)
    rows = sum(isinstance(item, DemoRow) for item in shown)
    terminal.print(
        f"\n{rows} rows, each with the schema that was true for it. The schema of now, which a program that reads the"
        f"\nsame file late takes from the server, gets {wrong} of them wrong.\n"
        "\n  strata decode FILE --out -    your own binlog files"
        "\n  strata init                   settings for your own server"
    )
    return 0


def _text(image: dict[str, Any]) -> str:
    return json.dumps(image, ensure_ascii=False).replace("[", r"\[")


def _late_text(row: DemoRow) -> str:
    if row.late is None:
        return f"{row.values} values for {row.columns} columns: an error, or a row that is lost"
    return _text(row.late)
