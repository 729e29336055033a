"""`strata stream`: the changes of a source, or of a group, as they happen, from any position on, as JSON lines.
Not here: the streams (`streams/stream.py`, `groups/stream.py`)."""

from __future__ import annotations

import json
import os
import signal
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from strata_cdc.cli.options import SourceName, Tables
from strata_cdc.cli.terminal import say
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.errors import UnreadableValueError, Usage
from strata_cdc.schema.model.patterns import require_matchable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.groups.stream import GroupStream
    from strata_cdc.streams.stream import ChangeStream

_NOW: Final = "now"


class StreamFormat(StrEnum):
    """What the command prints."""

    JSONL = "jsonl"


def stream(  # noqa: PLR0913  one for each option
    context: typer.Context,
    source: SourceName = None,
    group: Annotated[
        str | None, typer.Option(help="A group of the settings: its sources as one, in one order of time.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="now, beginning, a token, a GTID set, a time (ISO 8601, UTC), FILE:OFFSET or a commit timestamp "
            "of TiDB: the stream begins after it.",
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
            help="FROM,TO: two tokens, where old sources of a group end and where new ones begin; after "
            "the hops of its journal.",
        ),
    ] = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continues with new changes, until --until, SIGTERM or Ctrl-C.")
    ] = False,
    output_format: Annotated[StreamFormat, typer.Option("--format", help="JSON lines.")] = StreamFormat.JSONL,
) -> None:
    """Prints each change with a token: rows, ends of transactions, DDL, heartbeats. Begun again with the last token
    that was printed, it continues after that line; nothing is lost, nothing comes twice. A row with a value that cannot
    be read has a special line; the exit code after the last line is 1 then."""
    settings = load_settings(os.environ)
    del output_format
    changes: ChangeStream | GroupStream
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()] or None
    if group is None:
        if hop:
            raise Usage("--hop leads from sources of a group to others", remedy="Name the group: --group.")
        chosen = settings.source(source)
        _report_unmatched([chosen], table or (), names or ())
        changes, begins = _of_source(chosen, start, until=until, follow=follow, tables=table or (), columns=names)
    else:
        if source is not None:
            raise Usage("--source and --group are two streams", remedy="Leave one of them out.")
        _report_unmatched(settings.group(group).sources, table or (), names or ())
        options = {"until": until, "follow": follow, "tables": table or (), "columns": names}
        changes, begins = _of_group(settings, group, start, hop or (), options)
    # A line that has begun is written to its end.
    signal.signal(signal.SIGTERM, lambda *_: changes.close())
    if follow and not context.obj["json"]:
        say(f"strata: {begins}; continues with new changes until {until or 'Ctrl-C'}", err=True)
    _write(changes)


def _report_unmatched(sources: Sequence[Source], tables: Sequence[str], columns: Sequence[str]) -> None:
    """Reports names that nothing tracked has. They are not refused: a table may be made later, and one that is there
    may not be tracked yet."""
    if not tables and not columns:
        return
    require_matchable(tables)
    from strata_cdc.selection.unmatched import unmatched_names

    for text in unmatched_names(sources, tables, columns):
        say(f"strata: {text}", err=True)


def _of_source(source: Source, start: str, **options: Any) -> tuple[ChangeStream, str]:
    """The stream of a source, and where it begins."""
    # The server is queried for `now` before Arrow is loaded.
    from strata_cdc.binlog.protocol.server_now import server_now

    now = server_now(source.address) if start.strip() == _NOW and not source.is_sink else None
    from strata_cdc.streams.stream import ChangeStream

    if now is None:
        return ChangeStream(source, start, **options), f"{source.name} after {start}"
    return ChangeStream(source, now, **options), f"{source.name} after {now.position or 'nothing'} (now)"


def _of_group(
    settings: Settings, name: str, start: str, hop: Sequence[str], options: Mapping[str, Any]
) -> tuple[GroupStream, str]:
    """The stream of a group, and where it begins."""
    from strata_cdc.binlog.protocol.server_now import servers_now
    from strata_cdc.groups.switchovers import read_journal, switchovers_by_hand

    by_hand = switchovers_by_hand(hop)
    group = settings.group(name, former=[source for switchover in by_hand for source in switchover.old])
    switchovers = [*(read_journal(group.journal) if group.journal else ()), *by_hand]
    addresses = {source.name: source.address for source in group.sources}
    now = servers_now(addresses) if start.strip() == _NOW else None
    from strata_cdc.groups.stream import GroupStream

    return GroupStream(group, now or start, switchovers=switchovers, **options), f"group {name} after {start}"


def _write(changes: ChangeStream | GroupStream) -> None:
    is_empty, known = True, 0
    for lines in changes.written():
        is_empty = False
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()
        if changes.unreadable_rows > known:
            known = changes.unreadable_rows
            say(f"strata: {counted(known, 'row')} so far cannot be read: see the lines with `unreadable`", err=True)
    token = changes.reached() if is_empty else None
    if token is not None:
        # Nothing came: only the position to continue from can be printed.
        typer.echo(json.dumps({"token": token, "heartbeat": True}))
    if known:
        raise UnreadableValueError(
            f"{counted(known, 'row')} could not be read; all others have been given",
            remedy="Each has a line with `unreadable`, which has the reason and the bytes: compare the row with the "
            "server.",
        )
