"""`strata sql`: a query over tables as they were at a moment.
Not here: the answer (`past/query.py`), its text (`past/output.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.output_file import open_output
from strata_cdc.cli.terminal import Terminal, say
from strata_cdc.counted import counted
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from typing import TextIO

    from strata_cdc.past.query import Answer


class AnswerFormat(StrEnum):
    """What the rows are written as."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class EngineName(StrEnum):
    """What runs the query."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def sql(
    context: typer.Context,
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT of MySQL's SQL.", show_default=False)],
    source: SourceName = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="The moment of all tables that name none: a time (UTC unless it has a zone; the last transaction "
            "committed up to it), `interval` and a time (the end of the interval that has it), or a GTID set. By "
            "default the last one that all mirrors of the query have reached.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[AnswerFormat, typer.Option("--format", help="What the rows are written as.")] = (
        AnswerFormat.TABLE
    ),
    out: Annotated[str, typer.Option(help="A file for the rows; - is standard output.")] = "-",
    engine: Annotated[
        EngineName, typer.Option(help="What runs the query; Spark is for tables that do not fit into memory.")
    ] = EngineName.DUCKDB,
) -> None:
    """Answers a query over tables as they were: FROM shop.orders FOR SYSTEM_TIME AS OF TIMESTAMP '...'."""
    from strata_cdc.past.query import answer
    from strata_cdc.spark_jobs.query_engines import query_engine

    if format_ is AnswerFormat.PARQUET and out == "-":
        raise Usage("Parquet is written to a file", remedy="Name it: `--out rows.parquet`.")
    runs = query_engine(engine)
    rows = answer(source_of(source), statement, at, runs)
    if context.obj["json"] and format_ is AnswerFormat.TABLE:
        format_ = AnswerFormat.JSONL
    if format_ is AnswerFormat.PARQUET:
        _write_parquet(rows, out)
        return
    with open_output(out) as file:
        _write(rows, format_, file)


def _write(answer: Answer, format_: AnswerFormat, file: TextIO) -> None:
    from strata_cdc.past.output import csv_lines, json_lines

    if format_ is AnswerFormat.TABLE:
        _show(answer, file)
        return
    lines = json_lines(answer) if format_ is AnswerFormat.JSONL else csv_lines(answer)
    file.writelines(f"{line}\n" for line in lines)


def _show(answer: Answer, file: TextIO) -> None:
    from strata_cdc.past.output import json_rows

    shown = Table(box=None)
    for name, kind in zip(answer.rows.column_names, answer.kinds, strict=True):
        shown.add_column(name, justify="right" if kind.is_number else "left")
    for row in json_rows(answer):
        shown.add_row(*("NULL" if value is None else str(value) for value in row))
    Terminal(file=file, highlight=False).print(shown)
    at = "" if answer.moment is None else f" as of transaction {answer.moment.seq:,}"
    say(f"{counted(answer.rows.num_rows, 'row')}{at}", err=True)


def _write_parquet(answer: Answer, out: str) -> None:
    import pyarrow.parquet as pq

    from strata_cdc.past.output import distinct_names

    distinct_names(answer)
    try:
        pq.write_table(answer.rows, out)
    except OSError as error:
        raise Usage(f"the output cannot be written: {error}", file=out) from error
