"""`strata stream`: the changes of a source, or of a group, as they happen, from any position on, as JSON lines.
Not here: the streams (`streams/stream.py`, `groups/stream.py`)."""

from __future__ import annotations

import json
import os
import signal
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from strata.cli.options import SourceName, Tables
from strata.config.settings import load_settings
from strata.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator


class Written(Protocol):
    """A stream as lines."""

    def written(self) -> Iterator[bytes]:
        """Lines, as many at once as there are."""

    def close(self) -> None:
        """Ends it."""

    def reached(self) -> str | None:
        """The token of all that has been read; None in front of that."""


class StreamFormat(StrEnum):
    """What the command prints."""

    JSONL = "jsonl"


def stream(  # noqa: PLR0913  one for each option
    source: SourceName = None,
    group: Annotated[
        str | None, typer.Option(help="A group of the settings: its sources as one, in one order of time.")
    ] = None,
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
    hop: Annotated[
        list[str] | None,
        typer.Option(
            help="FROM,TO: two tokens, where old sources of a group were left and where new ones took over; behind "
            "the hops of its journal.",
        ),
    ] = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Goes on with what comes, until --until, SIGTERM or Ctrl-C.")
    ] = False,
    output_format: Annotated[StreamFormat, typer.Option("--format", help="JSON lines.")] = StreamFormat.JSONL,
) -> None:
    """Prints each change with a token: rows, ends of transactions, DDL, heartbeats. Begun again with the last token
    that was printed, it goes on behind that line; nothing is lost, nothing comes twice."""
    settings = load_settings(os.environ)
    del output_format
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()] or None
    changes: Written
    # Imported here: the command's help must not load Arrow.
    if group is not None:
        if source is not None:
            raise Usage("--source and --group are two streams", remedy="Leave one of them out.")
        from strata.groups.hops import hops_by_hand, read_journal  # noqa: PLC0415  see above
        from strata.groups.stream import GroupStream  # noqa: PLC0415  see above

        by_hand = hops_by_hand(hop or ())
        found = settings.group(group, former=[name for one in by_hand for name in one.old])
        hops = [*(read_journal(found.journal) if found.journal else ()), *by_hand]
        changes = GroupStream(found, start, until=until, follow=follow, tables=table or (), columns=names, hops=hops)
    else:
        if hop:
            raise Usage("--hop leads from sources of a group to others", remedy="Name the group: --group.")
        from strata.streams.stream import ChangeStream  # noqa: PLC0415  see above

        one = settings.source(source)
        changes = ChangeStream(one, start, until=until, follow=follow, tables=table or (), columns=names)
    # A line that has begun is written to its end.
    signal.signal(signal.SIGTERM, lambda *_: changes.close())
    _write(changes)


def _write(changes: Written) -> None:
    is_empty = True
    for lines in changes.written():
        is_empty = False
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()
    token = changes.reached() if is_empty else None
    if token is not None:
        # Nothing came: where to go on is what there is to be said.
        typer.echo(json.dumps({"token": token, "heartbeat": True}))


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(stream)
