"""`strata quarantine`: rows that were withheld, and what becomes of them.
Not here: finding and deciding (`pipeline/quarantine/`)."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict
from rich.table import Table

from strata_cdc.cli.options import SourceName, Tables, optional_time, source_of
from strata_cdc.cli.report import print_line, print_lines
from strata_cdc.cli.terminal import Terminal, say
from strata_cdc.clock import exact_text, now_micros, second_text
from strata_cdc.counted import counted
from strata_cdc.errors import ErrorFacts, StrataError, Usage
from strata_cdc.schema.history.shell_words import pattern_word, word
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.pipeline.quarantine.decide import Decider, DecisionOutcome
    from strata_cdc.pipeline.quarantine.find import InQuarantine
    from strata_cdc.store.decisions import Decision
    from strata_cdc.store.verdicts import FailedRule

_SHOWN_EXAMPLES = 3
_Interval = Annotated[str | None, typer.Option("--interval", help="Only the interval that has this time (ISO 8601).")]
_Reason = Annotated[
    str | None,
    typer.Option("--reason", help="Only rows with this reason, as `list` shows it; a pattern, as in '*null'."),
]
_Because = Annotated[
    str, typer.Option("--because", help="The reason, in a sentence: it is kept with the user's name and the time.")
]
_By = Annotated[str | None, typer.Option("--by", help="Who decides; by default the account of the system.")]
_All = Annotated[bool, typer.Option("--all", help="Everything, if no other option selects rows.")]


GROUP = typer.Typer(help="Rows that were withheld, and decisions on them.", no_args_is_help=True)


@GROUP.command("list")
def list_all(
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    interval: _Interval = None,
    reason: _Reason = None,
) -> None:
    """Lists what is withheld, by interval and table: rows, how many of them are kept in quarantine, and why."""
    configured, _, entries = _find(source, table, interval, reason)
    if context.obj["json"]:
        print_lines(_line(entry) for entry in entries)
        return
    shown = Table(box=None, pad_edge=False)
    shown.add_column("from (UTC)", no_wrap=True)
    shown.add_column("table")
    shown.add_column("state")
    for title in ("rows", "kept"):
        shown.add_column(title, justify="right")
    shown.add_column("reason")
    for entry in entries:
        table_interval = entry.withheld.table_interval
        numbers = (f"{entry.withheld.rows:,}", f"{entry.kept_rows:,}")
        reasons = ", ".join(entry.withheld.reasons)
        shown.add_row(
            second_text(table_interval.start), table_interval.name, str(table_interval.state), *numbers, reasons
        )
    Terminal().print(shown if entries else "nothing is withheld")
    if entries:
        say(f"`strata quarantine show --source {configured.name}` shows more of each, and the choices.")


@GROUP.command()
def show(
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    interval: _Interval = None,
    reason: _Reason = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="So many rows of each; sensitive values are masked.")] = 0,
) -> None:
    """Shows everything that is withheld: which checks failed, examples, where the rows are, what was decided."""
    from strata_cdc.pipeline.quarantine.look import some_rows
    from strata_cdc.store.decisions import DecisionLedger

    configured, engine, entries = _find(source, table, interval, reason)
    decisions = DecisionLedger(engine).select(configured.name)
    lines = []
    for entry in entries:
        mine = [decision for decision in decisions if _is_about(decision, entry)]
        samples = some_rows(configured, engine, entry, rows) if rows else []
        files = tuple(file.url for file in (*entry.judged, *entry.aside))
        lines.append(_ShowLine(**asdict(_line(entry)), files=files, decisions=_decisions_of(mine), rows_shown=samples))
    if context.obj["json"]:
        print_lines(lines)
        return
    for entry, line in zip(entries, lines, strict=True):
        _print(configured, entry, line)
    if not entries:
        say("nothing is withheld")


def _deciding(done: str, summary: str) -> Callable[..., int]:
    """The function of a command that decides; `summary` is its help."""

    def command(
        context: typer.Context,
        because: _Because,
        source: SourceName = None,
        table: Tables = None,
        interval: _Interval = None,
        reason: _Reason = None,
        everything: _All = False,  # noqa: FBT002  a switch of the command line
        by: _By = None,
    ) -> int:
        from strata_cdc.pipeline.quarantine import decide

        act = decide.release if done == "released" else decide.discard
        return _decide(context, _DecisionOptions(source, table, interval, reason, everything, because, by), act, done)

    command.__doc__ = summary
    return command


GROUP.command("release")(
    _deciding(
        "released",
        "Publishes rows that are in quarantine as they are; they are those that were checked, or it is refused.",
    )
)
GROUP.command("discard")(
    _deciding(
        "discarded",
        "Gives up rows that are withheld: they are no longer pending, and the ledger keeps them as discarded.",
    )
)


class _DecisionOptions(Struct, frozen=True):
    """The options of a decision."""

    source: str | None
    table: list[str] | None
    interval: str | None
    reason: str | None
    everything: bool
    because: str
    by: str | None


class _QuarantineLine(Struct, frozen=True):
    """A line of `--json`."""

    database: str
    table: str
    start: str
    end: str
    state: str
    rows: int
    kept_rows: int
    reasons: tuple[str, ...]
    run: str | None
    why: ErrorFacts | None
    failures: tuple[FailedRule, ...]


class _DecisionLine(Struct, frozen=True):
    verb: str
    because: str
    by: str
    at: str
    done: bool


class _ShowLine(_QuarantineLine, frozen=True, kw_only=True):
    """A line of `show --json`."""

    files: tuple[str, ...]
    decisions: tuple[_DecisionLine, ...]
    rows_shown: list[dict[str, Any]]


def _find(
    source: str | None, table: Sequence[str] | None, interval: str | None, reason: str | None
) -> tuple[Source, sa.Engine, list[InQuarantine]]:
    from strata_cdc.pipeline.quarantine.find import QuarantineFilter, find
    from strata_cdc.store.database import OnMissing, open_store

    configured = source_of(source)
    engine = open_store(configured.store_url, OnMissing.EMPTY)
    return (
        configured,
        engine,
        find(configured, engine, QuarantineFilter(tuple(table or ()), optional_time(interval), reason)),
    )


def _decide(
    context: typer.Context,
    chosen: _DecisionOptions,
    act: Callable[[Source, sa.Engine, InQuarantine, Decider], DecisionOutcome],
    done: str,
) -> int:
    """Decides on each that is chosen; what cannot be done does not keep the others from being done."""
    from strata_cdc.lake.known_lake import known_if_stored
    from strata_cdc.pipeline.quarantine.decide import Decider

    _require_choice(chosen, done)
    configured, engine, entries = _find(chosen.source, chosen.table, chosen.interval, chosen.reason)
    known_if_stored(configured)
    decided = Decider(chosen.because.strip(), chosen.by or getpass.getuser(), now_micros())
    outcomes: list[DecisionOutcome] = []
    errors: list[StrataError] = []
    for entry in entries:
        try:
            outcomes.append(act(configured, engine, entry, decided))
        except StrataError as error:
            errors.append(error)
    _tell(outcomes, done, is_meant=bool(entries), as_json=context.obj["json"])
    for further in errors[1:]:
        say(str(further), err=True)
    if errors:
        raise errors[0]
    return 0


def _require_choice(chosen: _DecisionOptions, done: str) -> None:
    if not chosen.because.strip():
        raise Usage("--because is empty", remedy="Give the reason: it is kept with the user's name and the time.")
    if not (chosen.table or chosen.interval or chosen.reason or chosen.everything):
        raise Usage(
            "no option selects what is to be " + done,
            remedy="Choose it with --table, --interval or --reason, or give --all.",
        )


def _tell(outcomes: Sequence[DecisionOutcome], done: str, *, is_meant: bool, as_json: bool) -> None:
    if as_json:
        print_line({done: [to_plain(outcome) for outcome in outcomes]})
    else:
        for outcome in outcomes:
            left = f"; {counted(outcome.left, 'row')} stay withheld" if outcome.left else ""
            say(f"{done} {counted(outcome.rows, 'row')} of {outcome.table} from {second_text(outcome.interval)}{left}")
        if not is_meant:
            say("nothing is withheld that is meant")


def _line(entry: InQuarantine) -> _QuarantineLine:
    interval = entry.withheld.table_interval
    return _QuarantineLine(
        database=interval.database,
        table=interval.table,
        start=exact_text(interval.start),
        end=exact_text(entry.end),
        state=str(interval.state),
        rows=entry.withheld.rows,
        kept_rows=entry.kept_rows,
        reasons=entry.withheld.reasons,
        run=interval.run,
        why=interval.reason,
        failures=entry.withheld.failures,
    )


def _is_about(decision: Decision, entry: InQuarantine) -> bool:
    interval = entry.withheld.table_interval
    mine = (interval.start, interval.database, interval.table)
    return (decision.start_at, decision.database_name, decision.table_name) == mine


def _decisions_of(decisions: Iterable[Decision]) -> tuple[_DecisionLine, ...]:
    return tuple(
        _DecisionLine(
            str(each.verb), each.because, each.decided_by, exact_text(each.decided_at), each.done_at is not None
        )
        for each in decisions
    )


def _print(source: Source, entry: InQuarantine, line: _ShowLine) -> None:
    interval = entry.withheld.table_interval
    rows = f"{counted(line.rows, 'row')} {interval.state}, {line.kept_rows:,} kept"
    say(f"{interval.name}, {line.start} to {line.end}: {rows}")
    if interval.reason:
        say(f"  {interval.reason.message}")
    for rule in line.failures:
        _print_rule(rule)
    for row in line.rows_shown:
        say(f"  {json.dumps(row, ensure_ascii=False, default=_text)}")
    for file in line.files:
        say(f"  {file}")
    for decision in line.decisions:
        done = "" if decision.done else ", begun and not carried out"
        say(f"  {decision.verb} by {decision.by} at {decision.at}{done}: {decision.because}")
    table = f"--source {source.name} --table {pattern_word(interval.name)}"
    where = f"{table} --interval {word(line.start)}"
    say(f"  decode again: strata run {table} --failed")
    if line.kept_rows:
        say(f"  publish as it is: strata quarantine release {where} --because '...'")
    say(f"  do without: strata quarantine discard {where} --because '...'")


def _print_rule(rule: FailedRule) -> None:
    rows = "" if rule.rows is None else f" ({counted(rule.rows, 'row')})"
    say(f"  {rule.severity}: {rule.check}: {rule.message}{rows}")
    for example in rule.examples[:_SHOWN_EXAMPLES]:
        say(f"    {example}")


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
