"""`strata schema`: what tables looked like, when they changed, and by which statement.
Not here: the answers and their JSON lines (`schema/answers/`), what people are shown (`schema_tables.py`)."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strata_cdc.cli.report import print_line, print_lines
from strata_cdc.cli.table_name import table_name
from strata_cdc.cli.terminal import say, say_exactly
from strata_cdc.cli.track import source_name, store_url
from strata_cdc.config.settings import load_settings
from strata_cdc.config.source_kinds import no_position
from strata_cdc.dialects.engines import Dialect
from strata_cdc.errors import UnknownSourceError, Usage
from strata_cdc.position.commit_ts import COMMIT_STEP, CommitStep
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.answers.lines import written_time
from strata_cdc.schema.answers.positions import at_time, log_position_of, position_of
from strata_cdc.schema.history.historian import Gap, History
from strata_cdc.schema.history.stream_positions import AtGtidSet, AtSeq

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.answers.tables import TablesAt
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.stream_positions import StreamPosition
    from strata_cdc.schema.history.versions import SchemaVersion
    from strata_cdc.schema.model.definition import TableName


# `strata schema show --dialect`: versions as CREATE TABLE statements.
_LOST = "not in this statement: "
_IN_DOUBT = "may be otherwise than SHOW CREATE TABLE had it: "


def print_statements(store: SchemaStore, source: str, tables: TablesAt, dialect: Dialect, *, as_json: bool) -> None:
    """Prints the statement of each table that is known; those that are not are the command's error."""
    for name, version in tables.tables:
        if isinstance(version, Gap):
            continue
        statements, notes = _statements(store, source, name, version, dialect)
        if as_json:
            print_line(_line(tables.executed, name, dialect, statements, notes))
        else:
            _print(name, dialect, statements, notes)


def _statements(
    store: SchemaStore, source: str, name: TableName, version: SchemaVersion, dialect: Dialect
) -> tuple[Sequence[str], Sequence[str]]:
    if dialect is Dialect.MYSQL:
        from strata_cdc.schema.answers.create_statements import create_statement

        statement = create_statement(store, source, name, version)
        return (statement.sql,), statement.notes
    from strata_cdc.dialects.create_table import create_table

    made = create_table(name, version.definition, dialect)
    return made.statements, made.lost


def _line(
    executed: str, name: TableName, dialect: Dialect, statements: Sequence[str], notes: Sequence[str]
) -> dict[str, Any]:
    head = {"gtid_executed": executed, "database": name.database, "table": name.table, "dialect": dialect.value}
    return {**head, "statements": statements, "notes": notes}


def _print(name: TableName, dialect: Dialect, statements: Sequence[str], notes: Sequence[str]) -> None:
    """For MySQL the statement alone, byte for byte; remarks about it go to standard error."""
    if dialect is Dialect.MYSQL:
        for note in notes:
            say(f"strata: {name}: {_IN_DOUBT}{note}", err=True)
    else:
        for note in notes:
            say_exactly(f"-- {_LOST}{' '.join(note.splitlines())}")
    for statement in statements:
        say_exactly(f"{statement};\n")


class Format(StrEnum):
    """How a command prints its answer."""

    TABLE = "table"
    JSONL = "jsonl"


_Source = Annotated[
    str | None, typer.Option(help="Name of the source; not needed where the settings, or the store, have only one.")
]
_Store = Annotated[str | None, typer.Option(help="SQLAlchemy URL of the store; by default that of the settings.")]
_Table = Annotated[str | None, typer.Option(help="One table, as database.table; all of them without it.")]
_Format = Annotated[Format, typer.Option("--format", help="For people, or one JSON line per table.")]


GROUP = typer.Typer(help="The schema history: what tables looked like, and what changed them.", no_args_is_help=True)


@GROUP.command()
def show(  # noqa: PLR0913, PLR0917 - the options of the command
    context: typer.Context,
    source: _Source = None,
    store: _Store = None,
    gtid_set: Annotated[str | None, typer.Option(help="A GTID set: after exactly these transactions.")] = None,
    position: Annotated[
        str | None,
        typer.Option(help="FILE:OFFSET: after all events that start before it; or as --gtid-set, of any server."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="After the transactions committed before it (ISO 8601, UTC).")
    ] = None,
    commit_ts: Annotated[str | None, typer.Option(help="A commit timestamp of TiDB: up to it.")] = None,
    table: _Table = None,
    output: _Format = Format.TABLE,
    dialect: Annotated[Dialect | None, typer.Option(help="As CREATE TABLE for this engine, instead.")] = None,
) -> None:
    """Shows tables as they were at a point of the stream; at its end, if none is given. Exit code 1 if one of them is
    not known there."""
    from strata_cdc.cli.schema_tables import print_definitions
    from strata_cdc.schema.answers.tables import refuse_gaps, require_table, tables_at

    versions, known_as = _store_of(store, source)
    history = History(versions, known_as)
    given = [text for text in (gtid_set, position, time, commit_ts) if text is not None]
    if len(given) > 1:
        raise Usage("only one of --gtid-set, --position, --time and --commit-ts can be given")
    if commit_ts is not None:
        at = _any_position(history, str(CommitStep.parse(commit_ts)), store, known_as)
    else:
        _refuse_of_sink(gtid_set if position is None else position, store, known_as)
        at = _position(history, gtid_set, position, time)
    name = table_name(table) if table is not None else None
    if name is not None:
        require_table(versions, known_as, name)
    tables = tables_at(history, at, name)
    if dialect is not None:
        print_statements(versions, known_as, tables, dialect, as_json=_is_jsonl(context, output))
    elif _is_jsonl(context, output):
        print_lines(tables.lines())
    else:
        print_definitions(tables)
    if tables.others is not None:
        say(f"strata: there may be tables besides these: {tables.others}", err=True)
    # After the others have been printed.
    refuse_gaps(history, at, tables)


@GROUP.command()
def history(
    context: typer.Context,
    source: _Source = None,
    store: _Store = None,
    table: _Table = None,
    column: Annotated[str | None, typer.Option(help="Only changes of this column, by any table.")] = None,
    output: _Format = Format.TABLE,
) -> None:
    """Lists every change of every table in the order of the stream, with the statement that made it."""
    from strata_cdc.cli.schema_tables import print_history
    from strata_cdc.schema.answers.changes import changes
    from strata_cdc.ticdc.landed_steps import commit_places

    versions, tracked = _store_of(store, source)
    _ = History(versions, tracked).tracked  # refuses a source that nobody has tracked
    name = table_name(table) if table is not None else None
    listed = changes(versions, tracked, name, column)
    if _is_jsonl(context, output):
        print_lines(change.line() for change in listed)
    else:
        # If one table is requested, what became of its copy is shown, too.
        shown = (change for change in listed if table is not None or not change.is_part)
        print_history(shown, None if store is not None else commit_places(load_settings(os.environ).source(tracked)))


@GROUP.command()
def diff(
    context: typer.Context,
    source: _Source = None,
    store: _Store = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="GTID set, FILE:OFFSET or time; of a sink a commit timestamp or time."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="The same; by default the stream's end.")] = None,
    table: _Table = None,
    output: _Format = Format.TABLE,
) -> None:
    """Shows what changed between two points of the stream, whatever went on between them."""
    from strata_cdc.cli.schema_tables import print_differences
    from strata_cdc.schema.answers.differences import differences
    from strata_cdc.schema.answers.tables import require_table

    versions, known_as = _store_of(store, source)
    known = History(versions, known_as)
    before = _any_position(known, start, store, known_as) if start is not None else AtSeq(0)
    after = _any_position(known, end, store, known_as) if end is not None else AtSeq(known.tracked.seq)
    name = table_name(table) if table is not None else None
    if name is not None:
        require_table(versions, known_as, name)
    differing = differences(versions, known_as, before, after, name)
    if _is_jsonl(context, output):
        print_lines(difference.line() for difference in differing)
    else:
        print_differences(differing)


def _store_of(store: str | None, source: str | None) -> tuple[SchemaStore, str]:
    """The store, and the source's name in it."""
    name = source if store is not None else source_name(source)
    versions = _open(store, name)
    return versions, name or _only_source(versions)


def _only_source(store: SchemaStore) -> str:
    sources = store.sources()
    if len(sources) == 1:
        return sources[0]
    raise UnknownSourceError(
        f"which source: the store has {', '.join(sources) or 'none'}",
        remedy=f"Name one, as in --source {sources[0]}." if sources else "`strata track` stores the first version.",
    )


def _open(store: str | None, source: str | None) -> SchemaStore:
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.store.database import OnMissing, open_store

    return SchemaStore(open_store(store_url(store, source), OnMissing.REFUSE))


def _position(history: History, gtid_set: str | None, position: str | None, time: str | None) -> StreamPosition:
    if gtid_set is not None:
        return AtGtidSet(parse_executed(gtid_set))
    if position is not None:
        return log_position_of(position)
    if time is not None:
        return _tell_end(history, at_time(history, time))
    return AtSeq(history.tracked.seq)


def _refuse_of_sink(text: str | None, store: str | None, source: str) -> None:
    """Refuses positions of binlogs for a sink, numbers too: those have an option of their own."""
    if text is not None and store is None and load_settings(os.environ).source(source).is_sink:
        raise no_position(source, f"{text!r} is given as a position of a server's binlog")


def _any_position(history: History, text: str, store: str | None, source: str) -> StreamPosition:
    if store is not None:
        if COMMIT_STEP.fullmatch(text):
            raise Usage(
                f"{text!r} is a number: only positions of a TiCDC sink are, and they are looked up in its lake",
                remedy="Leave --store out for a sink: the settings have both. For a server, give a GTID set, "
                "FILE:OFFSET, or a time.",
            )
        return _tell_end(history, position_of(history, text))
    from strata_cdc.progress.find_position import schema_position

    at = schema_position(history, load_settings(os.environ).source(source), text)
    return at if COMMIT_STEP.fullmatch(text) else _tell_end(history, at)


def _tell_end(history: History, position: StreamPosition) -> StreamPosition:
    """Warns if a time is after the end of the stream."""
    if isinstance(position, AtSeq):
        typer.echo(
            f"strata: the stream has been tracked up to {written_time(history.tracked.committed_at)} UTC; "
            "this is what there was by then",
            file=sys.stderr,
        )
    return position


def _is_jsonl(context: typer.Context, output: Format) -> bool:
    return output is Format.JSONL or bool(context.obj["json"])
