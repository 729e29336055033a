"""`strata decode`: the rows of binlog files as JSON lines or Parquet.
Not here: decoding (`rows/`), which versions apply (`jobs/decode/decode_files.py`)."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from strata.cli.report import print_report
from strata.cli.terminal import say
from strata.config.settings import STORE_DATABASE
from strata.errors import LakeUnavailableError, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata.cli.rows_out import JsonlOutput, ParquetOutput
    from strata.jobs.decode.decode_files import Step
    from strata.schema.history.version_store import VersionStore
    from strata.schema.model.definition import TableName

FILES = "files"
"""Name of the source that files without a store are tracked as."""


class OutputFormat(StrEnum):
    """What the rows are written as."""

    JSONL = "jsonl"
    PARQUET = "parquet"


class Mismatch(StrEnum):
    """What to do with rows that contradict their schema version."""

    QUARANTINE = "quarantine"
    FAIL = "fail"
    LENIENT = "lenient"


def decode(  # noqa: PLR0913, PLR0917 - the options of the command
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Binlog files or landed segments.")],
    out: Annotated[str, typer.Option(help="JSON lines: a file, or `-`. Parquet: a folder.")],
    output_format: Annotated[OutputFormat, typer.Option("--format", help="What to write.")] = OutputFormat.JSONL,
    source: Annotated[str, typer.Option(help="Name of the source in the store.")] = FILES,
    store: Annotated[str | None, typer.Option(help="URL of the store that has the versions.")] = None,
    baseline: Annotated[str | None, typer.Option(help="CREATE TABLE statements: what there was before.")] = None,
    lower_case_table_names: Annotated[
        int | None, typer.Option(min=0, max=2, help="The server's setting, which no binlog holds; 0 by default.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Patterns of database.table; may be repeated.")] = None,
    physical: Annotated[bool, typer.Option("--physical", help="By the TABLE_MAPs alone: columns @1, @2, ...")] = False,  # noqa: FBT002 - a flag of the command line
    on_mismatch: Annotated[Mismatch, typer.Option(help="Rows that contradict their version.")] = Mismatch.QUARANTINE,
    skip_corrupt: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--skip-corrupt", help="Go on at the next readable transaction behind damage; exit code 1.")
    ] = False,
) -> None:
    """Decodes rows with the schema that was true for each; without a store the same files are tracked first."""
    # Imported here: the command's help must not load Arrow.
    from strata.cli.rows_out import JsonlOutput, ParquetOutput  # noqa: PLC0415  see above

    _check_options(store, baseline, lower_case_table_names, physical=physical)
    wanted = _wanted(table or [])
    steps = (
        _physical(files, wanted, skip_corrupt=skip_corrupt)
        if physical
        else _versioned(
            files, wanted, source, store, baseline, lower_case_table_names, on_mismatch, skip_corrupt=skip_corrupt
        )
    )
    output = JsonlOutput(out) if output_format is OutputFormat.JSONL else ParquetOutput(out)
    try:
        with output:
            for step in steps:
                output.take(step)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LakeUnavailableError(
            f"the output cannot be written: {error}", file=out, remedy="Make room there, or name another place."
        ) from error
    _tell(output, is_shown=out == "-", all_of_it=skip_corrupt, as_json=context.obj["json"])
    if output.errors:
        raise output.errors[0]


def _check_options(
    store: str | None, baseline: str | None, lower_case_table_names: int | None, *, physical: bool
) -> None:
    if physical and (store or baseline):
        raise Usage("--physical looks at no versions", remedy="Leave --store and --baseline out.")
    if store and baseline:
        raise Usage(
            "a store has its own baseline", remedy="Give it to `strata track --baseline FILE.sql`, or leave it out."
        )
    if lower_case_table_names is not None and (store or physical):
        raise Usage("a store knows how names are folded, and --physical folds none", remedy="Leave the option out.")


def _tell(output: JsonlOutput | ParquetOutput, *, is_shown: bool, all_of_it: bool, as_json: bool) -> None:
    """Says what was written, but for where the rows themselves are shown, and what was not."""
    for text in output.told(reported=not is_shown):
        say(text, err=True)
    if not is_shown and (all_of_it or output.quarantined or not output.errors):
        print_report(output.report(), as_json=as_json)
    elif output.quarantined and not as_json:
        tables = ", ".join(f"{table}: {rows:,}" for table, rows in output.quarantined.most_common())
        typer.echo(f"{output.quarantined.total():,} rows are in quarantine ({tables}): {output.quarantine}", err=True)


def _wanted(patterns: list[str]) -> Callable[[TableName], bool]:
    """Whether a table is asked for; a store's own tables, which may be in its source's binlog, never are."""
    chosen = patterns or ["*"]
    return lambda table: (
        any(fnmatchcase(str(table), pattern) for pattern in chosen)
        and not (table.database == STORE_DATABASE and _is_own(table))
    )


def _is_own(table: TableName) -> bool:
    # Imported here: files without a store are decoded without SQLAlchemy.
    from strata.store.own import is_own_table  # noqa: PLC0415  see above

    return is_own_table(table.database, table.table)


def _physical(files: list[str], wanted: Callable[[TableName], bool], *, skip_corrupt: bool) -> Iterator[Step]:
    from strata.jobs.decode.decode_files import decode_files_physically  # noqa: PLC0415  as above

    return decode_files_physically(files, wanted=wanted, skip_corrupt=skip_corrupt)


def _versioned(
    files: list[str],
    wanted: Callable[[TableName], bool],
    source: str,
    store: str | None,
    baseline: str | None,
    lower_case_table_names: int | None,
    on_mismatch: Mismatch,
    *,
    skip_corrupt: bool,
) -> Iterator[Step]:
    from strata.jobs.decode.decode_files import decode_files, track_in_memory  # noqa: PLC0415  as above
    from strata.rows.decode_plans import OnMismatch  # noqa: PLC0415  as above

    fault = None
    versions: VersionStore
    if store:
        from strata.schema.history.sql_store import SchemaStore  # noqa: PLC0415 - a database's library is loaded where there is one
        from strata.store.database import open_store  # noqa: PLC0415  see above

        versions = SchemaStore(open_store(store))
    else:
        versions, fault = track_in_memory(
            files, source, baseline, lower_case_table_names=lower_case_table_names, skip_corrupt=skip_corrupt
        )
    policy = OnMismatch(on_mismatch.value)
    yield from decode_files(files, versions, source, wanted=wanted, on_mismatch=policy, skip_corrupt=skip_corrupt)
    if fault is not None:
        raise fault


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(decode)
