"""`strata position`: a time, a GTID set, a file and offset or a commit timestamp, each in terms of the others.
Not here: looking it up (`landing/landed.py`)."""

from __future__ import annotations

from typing import Annotated

import typer

from strata_cdc.cli.options import SourceName, optional_time, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.errors import Usage


def position(
    context: typer.Context,
    source: SourceName = None,
    time: Annotated[str | None, typer.Option(help="What had been committed before it (ISO 8601, UTC).")] = None,
    gtid_set: Annotated[str | None, typer.Option(help="A GTID set: the transactions that had been executed.")] = None,
    file: Annotated[
        str | None, typer.Option(help="FILE:OFFSET in the server's binlog: the transactions that begin before it.")
    ] = None,
    commit_ts: Annotated[
        str | None, typer.Option(help="A commit timestamp of TiDB: everything that was committed up to it.")
    ] = None,
) -> None:
    """Shows where a point of the landed stream is: the last transaction before it, its time, its file and offset."""
    from strata_cdc.progress.find_position import find_position

    given = [value for value in (time, gtid_set, file, commit_ts) if value is not None]
    if len(given) != 1:
        raise Usage("one of --time, --gtid-set, --file and --commit-ts is needed")
    configured = source_of(source)
    report = find_position(
        configured.lake, configured.name, time=optional_time(time), gtid_set=gtid_set, file=file, commit_ts=commit_ts
    )
    print_report(report, as_json=context.obj["json"])
