"""The proof of the demo: change tables replayed from the first transaction equal what SELECT gives on the server.
Not here: the replay (`strata_cdc.quality.proof.replay`), the other output (`demo_report.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from rich.table import Table

from strata_cdc.quality.proof.replay import replay_source
from strata_cdc.store.database import open_store
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql
    from rich.console import Console

    from strata_cdc.config.settings import Source
    from strata_cdc.quality.proof.replay import TableState


def prove(source: Source, database: str, connection: pymysql.Connection, console: Console) -> bool:
    """Compares every table of a database, row by row and value by value; true when all are equal."""
    with console.status("replaying all changes from the first transaction"):
        engine = open_store(source.store_url)
        replayed = replay_source(source.lake, source.name, engine, lambda name: name.database == database)
    states = {name.table: state for name, state in replayed.items()}
    found = Table(
        "table", "rows on the server", "rows replayed", "", title="Replay against SELECT", title_justify="left"
    )
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [database])
        names = {str(name) for (name,) in cursor.fetchall()}
    equal = names == set(states)
    for name in sorted(names | set(states)):
        if name in names and name in states:
            theirs, ours = _server_rows(connection, name, states[name]), states[name].rows
            key = [column_name(part) for part in states[name].definition.primary_key]
            difference = first_difference(theirs, ours, key)
            equal &= difference is None
            verdict = "[green]equal[/green]" if difference is None else f"[red]{difference}[/red]"
            found.add_row(name, f"{theirs.num_rows:,}", f"{ours.num_rows:,}", verdict)
        else:
            found.add_row(name, "", "", f"[red]only {'on the server' if name in names else 'replayed'}[/red]")
    console.print(found)
    return equal


def _server_rows(connection: pymysql.Connection, table: str, state: TableState) -> pa.Table:
    """The rows of a table as SELECT gives them now, in the types of the change table."""
    names = [column.name for column in state.definition.columns]
    quoted = ", ".join("`{}`".format(name.replace("`", "``")) for name in names)
    with connection.cursor() as cursor:
        cursor.execute("SELECT {} FROM `{}`".format(quoted, table.replace("`", "``")))
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    schema = state.rows.schema
    fields = [schema.field(column_name(name)) for name in names]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def first_difference(theirs: pa.Table, ours: pa.Table, key: Sequence[str]) -> str | None:
    """The first value of two tables with equal columns that differs, or None; both are sorted by a key."""
    if theirs.num_rows != ours.num_rows:
        return f"{theirs.num_rows - ours.num_rows:+,} rows on the server"
    order = [(part, "ascending") for part in key]
    left, right = (side.sort_by(order).select(theirs.column_names) for side in (theirs, ours))
    for name in theirs.column_names:
        if left[name].combine_chunks() != right[name].combine_chunks():
            at = next(at for at in range(left.num_rows) if left[name][at] != right[name][at])
            return f"{name} is {left[name][at]} on the server, {right[name][at]} replayed"
    return None
