"""`strata stream`: the changes of a source as they happen, from any position on, as JSON lines.
Not here: the stream (`streams/stream.py`)."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from typing import Annotated

import typer

from strata.cli.options import SourceName, Tables
from strata.config.settings import load_settings


class StreamFormat(StrEnum):
    """What the command prints."""

    JSONL = "jsonl"


def stream(
    source: SourceName = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="now, beginning, a token, a GTID set, a time (ISO 8601, UTC) or FILE:OFFSET: what follows it.",
        ),
    ] = "now",
    until: Annotated[
        str | None, typer.Option(help="Likewise, and landed: all that has landed. A time is exclusive.")
    ] = None,
    table: Tables = None,
    columns: Annotated[str | None, typer.Option(help="Names of columns, as in id,state; of all tables.")] = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Goes on with what comes, until --until, SIGTERM or Ctrl-C.")
    ] = False,
    output_format: Annotated[StreamFormat, typer.Option("--format", help="JSON lines.")] = StreamFormat.JSONL,
) -> None:
    """Prints each change with a token: rows, ends of transactions, DDL, heartbeats. Begun again with the last token
    that was printed, it goes on behind that line; nothing is lost, nothing comes twice."""
    found = load_settings(os.environ).source(source)
    # Imported here: the command's help must not load Arrow.
    from strata.streams.stream import ChangeStream  # noqa: PLC0415  see above

    del output_format
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    changes = ChangeStream(found, start, until=until, follow=follow, tables=table or (), columns=names)
    # A line that has begun is written to its end.
    signal.signal(signal.SIGTERM, lambda *_: changes.close())
    for lines in changes.written():
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(stream)
