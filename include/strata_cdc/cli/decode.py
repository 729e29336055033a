"""`strata decode`: the rows of binlog files or a TiCDC folder as JSON lines or Parquet; or those of a planned run.
Not here: decoding (`changes/`), which versions apply (`pipeline/decode/decode_files.py`), the engine of a run
(`engine_steps.py`)."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata_cdc.cli.decode_sink import BinaryEncoding, SinkOptions, check_options, decode_sink, is_sink
from strata_cdc.cli.options import EngineName, Master, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.cli.step_lines import StepLines
from strata_cdc.cli.terminal import say
from strata_cdc.config.settings import STORE_DATABASE
from strata_cdc.counted import counted
from strata_cdc.errors import LakeUnavailableError, Usage
from strata_cdc.runs.run_name import RunName
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.cli.rows_out import JsonlOutput, ParquetOutput
    from strata_cdc.config.engines import Engine
    from strata_cdc.pipeline.decode.decode_files import FileStep
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.model.definition import TableName

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
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES... | FOLDER | RUN",
            help="Binlog files or landed segments; a TiCDC folder; or one run, as `strata plan` names it.",
        ),
    ],
    out: Annotated[
        str | None, typer.Option(help="Where the rows of files go. JSON lines: a file, or `-`. Parquet: a folder.")
    ] = None,
    output_format: Annotated[OutputFormat, typer.Option("--format", help="What to write.")] = OutputFormat.JSONL,
    source: Annotated[str | None, typer.Option(help="Name of the source in the store; of a run as everywhere.")] = None,
    store: Annotated[str | None, typer.Option(help="URL of the store that has the versions.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="CREATE TABLE statements: the tables before the first file.")
    ] = None,
    lower_case_table_names: Annotated[
        int | None, typer.Option(min=0, max=2, help="The server's setting, which no binlog holds; 0 by default.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Patterns of database.table; may be repeated.")] = None,
    physical: Annotated[bool, typer.Option("--physical", help="By the TABLE_MAPs alone: columns @1, @2, ...")] = False,  # noqa: FBT002 - a flag of the command line
    on_mismatch: Annotated[Mismatch, typer.Option(help="Rows that contradict their version.")] = Mismatch.QUARANTINE,
    skip_corrupt: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--skip-corrupt", help="Go on at the next readable transaction after damage; exit code 1.")
    ] = False,
    where: Annotated[
        str | None, typer.Option(help="Only changes of rows for which this holds, before or after: MySQL's SQL.")
    ] = None,
    null: Annotated[
        str | None, typer.Option(help="Of a TiCDC folder: how its CSV writes NULL; \\N by default.")
    ] = None,
    binary_encoding: Annotated[
        BinaryEncoding | None, typer.Option(help="Of a TiCDC folder: how its CSV writes bytes; base64 by default.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="Of a TiCDC folder: the time zone of its TIMESTAMPs, that of the TiCDC servers.")
    ] = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Decodes rows with the schema that was true for each; without a store the same files are tracked first.

    Without --out it decodes a planned run into its folder, for `strata check` and `strata publish`.
    """
    if out is None:
        _refuse_options_of_files(context)
        _decode_run(_the_run(files), source, engine, master, as_json=context.obj["json"])
        return
    from strata_cdc.cli.rows_out import JsonlOutput, ParquetOutput

    _check_options(store, baseline, lower_case_table_names, where, physical=physical)
    wanted = _TablePatterns(table or [])
    of_sink = is_sink(files)
    check_options(context.params, of_sink=of_sink)
    steps: Iterator[FileStep]
    if of_sink:
        steps = decode_sink(files[0], wanted, SinkOptions(null, binary_encoding, time_zone))
    elif physical:
        steps = _physical(files, wanted, skip_corrupt=skip_corrupt)
    else:
        steps = _versioned(
            files,
            wanted,
            source or FILES,
            store,
            baseline,
            lower_case_table_names,
            on_mismatch,
            skip_corrupt=skip_corrupt,
        )
    output = JsonlOutput(out) if output_format is OutputFormat.JSONL else ParquetOutput(out)
    _write_all(output, _chosen(steps, where), out)
    _tell(output, is_shown=out == "-", all_of_it=skip_corrupt, as_json=context.obj["json"])
    for pattern in wanted.unmatched:
        say(f"strata: no table with rows in these files matches {pattern!r}", err=True)
    if output.errors:
        raise output.errors[0]


def _write_all(output: JsonlOutput | ParquetOutput, steps: Iterator[FileStep], out: str) -> None:
    try:
        with output:
            for step in steps:
                output.write(step)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LakeUnavailableError(
            f"the output cannot be written: {error}", file=out, remedy="Free some space there, or choose another path."
        ) from error


def _the_run(words: list[str]) -> str:
    """The run that is to be decoded; files need a folder for their rows."""
    files = [word for word in words if Path(word).exists() or "://" in word]
    if files:
        raise Usage(
            f"{files[0]} is a file, and nothing says where its rows go",
            remedy="Give --out FILE, `--out -` for the terminal, or --out FOLDER --format parquet.",
        )
    if len(words) > 1:
        raise Usage(f"neither {words[0]} nor {words[1]} is a file, and only one run can be decoded at a time")
    if RunName.parse(words[0]) is None:
        raise Usage(
            f"{words[0]!r} is neither a file nor a run",
            remedy="Binlog files need --out; a run is named by `strata plan`.",
        )
    return words[0]


def _refuse_options_of_files(context: typer.Context) -> None:
    """What only files have a meaning for: a run has all of it from its plan."""
    given = [
        name for name, value in context.params.items() if value and name not in {"files", "source", "engine", "master"}
    ]
    defaults = {"output_format": OutputFormat.JSONL, "on_mismatch": Mismatch.QUARANTINE}
    wrong = [name for name in given if context.params[name] != defaults.get(name)]
    if wrong:
        option = {"output_format": "format"}.get(wrong[0], wrong[0]).replace("_", "-")
        raise Usage(
            f"--{option} is for files, and they need --out",
            remedy="A run has its tables, its source and its versions from `strata plan`.",
        )


def _decode_run(run: str, source: str | None, engine: Engine | None, master: str | None, *, as_json: bool) -> None:
    from strata_cdc.cli.engine_steps import EngineSteps

    configured = source_of(source)
    with StepLines(shown=not as_json) as lines:
        lines.begin("decode")
        report = EngineSteps(configured, engine, master, lines.decoded).decode(run)
    # For people, the engine and the reason are one text.
    shown = to_plain(report) | {"engine": None if report.engine is None else str(report.engine)}
    print_report(report if as_json else shown, as_json=as_json)


def _chosen(steps: Iterator[FileStep], where: str | None) -> Iterator[FileStep]:
    if where is None:
        return steps
    from strata_cdc.pipeline.decode.choose_rows import choose_rows

    return choose_rows(steps, where)


def _check_options(
    store: str | None, baseline: str | None, lower_case_table_names: int | None, where: str | None, *, physical: bool
) -> None:
    if physical and where:
        raise Usage(
            "--where needs names and types of columns, and --physical has none", remedy="Leave one of them out."
        )
    if physical and (store or baseline):
        raise Usage("--physical looks at no versions", remedy="Leave --store and --baseline out.")
    if store and baseline:
        raise Usage(
            "a store has its own baseline", remedy="Give it to `strata track --baseline FILE.sql`, or leave it out."
        )
    if lower_case_table_names is not None and (store or physical):
        raise Usage("a store knows how names are folded, and --physical folds none", remedy="Leave the option out.")


def _tell(output: JsonlOutput | ParquetOutput, *, is_shown: bool, all_of_it: bool, as_json: bool) -> None:
    """Reports what was not written, and what was, unless the rows themselves were printed."""
    for text in output.messages(reported=not is_shown):
        say(text, err=True)
    if not is_shown and (all_of_it or output.quarantined or not output.errors):
        print_report(output.report(), as_json=as_json)
    elif output.quarantined and not as_json:
        tables = ", ".join(f"{table}: {rows:,}" for table, rows in output.quarantined.most_common())
        typer.echo(
            f"{counted(output.quarantined.total(), 'row')} in quarantine ({tables}): {output.quarantine}", err=True
        )


class _TablePatterns:
    """Whether a table is requested; a store's own tables, which may be in its source's binlog, never are."""

    def __init__(self, patterns: list[str]) -> None:
        self._patterns = patterns or ["*"]
        self.unmatched = dict.fromkeys(patterns)
        """Patterns that no table of the files has matched so far."""

    def __call__(self, table: TableName) -> bool:
        matching = [pattern for pattern in self._patterns if fnmatchcase(str(table), pattern)]
        for pattern in matching:
            self.unmatched.pop(pattern, None)
        return bool(matching) and not (table.database == STORE_DATABASE and _is_own(table))


def _is_own(table: TableName) -> bool:
    # Imported here: files without a store are decoded without SQLAlchemy.
    from strata_cdc.store.own import is_own_table

    return is_own_table(table.database, table.table)


def _physical(files: list[str], wanted: Callable[[TableName], bool], *, skip_corrupt: bool) -> Iterator[FileStep]:
    from strata_cdc.pipeline.decode.decode_files import decode_files_physically

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
) -> Iterator[FileStep]:
    from strata_cdc.changes.decode_plans import OnMismatch
    from strata_cdc.pipeline.decode.decode_files import decode_files, track_in_memory

    fault, plain = None, None
    versions: VersionStore
    if store:
        from strata_cdc.schema.history.sql_store import SchemaStore
        from strata_cdc.store.database import OnMissing, open_store

        versions = SchemaStore(open_store(store, OnMissing.REFUSE))
    else:
        tracked = track_in_memory(
            files, source, baseline, lower_case_table_names=lower_case_table_names, skip_corrupt=skip_corrupt
        )
        versions, plain, fault = tracked.versions, tracked.plain, tracked.fault
    policy = OnMismatch(on_mismatch.value)
    yield from decode_files(
        files, versions, source, wanted=wanted, on_mismatch=policy, skip_corrupt=skip_corrupt, plain=plain
    )
    if fault is not None:
        raise fault
