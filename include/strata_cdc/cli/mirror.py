"""`strata mirror`: tables as they are on the server, brought up to date, listed and maintained.
Not here: the work (`mirrors/follow/`, `mirrors/`)."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from strata_cdc.cli.options import SourceName, Tables, source_of
from strata_cdc.cli.reconcile import show
from strata_cdc.cli.report import print_line, print_lines
from strata_cdc.cli.terminal import Terminal, say
from strata_cdc.clock import now_micros
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.errors import Usage, one_line
from strata_cdc.pipeline.steps import MIRROR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.mirrors.follow.update_mirrors import MirrorOutcome
    from strata_cdc.mirrors.follow.upkeep import KeptUp, ListedMirror
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.store.read_again import TableToRead

GROUP = typer.Typer(invoke_without_command=True)


@GROUP.callback()
def mirror(context: typer.Context, source: SourceName = None, table: Tables = None) -> None:
    """Tables as they are on the server. Without a command, it does what `update` does."""
    name = context.invoked_subcommand
    if name is None:
        update(context, source, table)
    elif source is not None or table:
        raise Usage(
            "--source and --table come after the command", remedy=f"Write `{name}` first, and then its options."
        )


@GROUP.command()
def update(context: typer.Context, source: SourceName = None, table: Tables = None) -> None:
    """Brings the mirrors that the settings name up to what is published; lists which are blocked, and why."""
    settings = load_settings(os.environ)
    # What waits for a dump is listed below, by table.
    report = MIRROR(settings.source_name(source), tuple(table or ()), settings=settings, tell=lambda _: None)
    if context.obj["json"]:
        print_lines(report.mirrors)
    else:
        _say_outcomes(report.mirrors)
    _require(settings.source_name(source), table, [*report.outcomes, *report.without])
    report.raise_if_wrong()


def _say_outcomes(outcomes: Iterable[MirrorOutcome]) -> None:
    for outcome in outcomes:
        # Rows of another table are not counted.
        rows = (
            f", {counted(outcome.rows, 'row')}" if outcome.delta_version is not None and outcome.error is None else ""
        )
        blocked = "blocked" if rows or outcome.error else "has no mirror"
        at = f"at transaction {outcome.position.seq}" if outcome.position and outcome.error is None else blocked
        why = f": {outcome.behind}" if outcome.behind else ""
        say(f" {outcome.table}  {at}{', dropped' if outcome.dropped else ''}{rows}{why}")


def _require(source: str, patterns: Sequence[str] | None, matching: Sequence[object]) -> None:
    """Refuses table patterns that match no mirror, so that an empty answer is not taken for success.

    Raises:
        Usage: None of them has a mirror.
    """
    if patterns and not matching:
        raise Usage(
            f"there is no mirror of {' or '.join(patterns)}",
            source=source,
            remedy="`strata mirror list` lists them; `mirrors` in the settings says which there are to be.",
        )


@GROUP.command("list")
def list_(context: typer.Context, source: SourceName = None, table: Tables = None) -> None:
    """Lists mirrors: rows, files, position, and what they wait for."""
    from strata_cdc.mirrors.follow.upkeep import list_mirrors
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.store.database import find_store

    configured = source_of(source)
    engine = find_store(configured.store_url)
    waiting = {
        entry.name: entry
        for entry in _waiting(configured, engine)
        if _matching(table)(TableName(entry.database_name, entry.table_name))
    }
    mirrors = list_mirrors(configured.lake, configured.name, _matching(table))
    _require(configured.name, table, [*mirrors, *waiting])
    if context.obj["json"]:
        print_lines(mirrors)
        return
    if not mirrors:
        named = ", ".join(configured.settings.mirrors)
        which = f"`mirrors` names {named}: `strata run` makes them" if named else "`mirrors` in the settings names none"
        say(f"{configured.name} has no mirror; {which}")
        return
    shown = Table(box=None)
    for name in ("table", "rows", "files", "transaction", "GTIDs executed", "state"):
        shown.add_column(name, justify="right" if name in {"rows", "files", "transaction"} else "left")
    excluded = _excluded(configured, engine)
    for mirror in mirrors:
        at, state = mirror.position, _state(mirror, waiting.pop(mirror.table, None), excluded(mirror.table))
        position = (str(at.seq), at.gtid_executed) if at else ("", "")
        shown.add_row(one_line(mirror.table), f"{mirror.rows:,}", str(mirror.files), *position, state)
    for name, absent in waiting.items():
        shown.add_row(one_line(name), "", "", "", "", f"has no mirror: {absent.reason}")
    Terminal().print(shown)


def _waiting(source: Source, engine: sa.Engine | None) -> list[TableToRead]:
    """The tables of a source that wait to be read again."""
    from strata_cdc.store.read_again import ReadAgainLedger

    return [] if engine is None else ReadAgainLedger(engine).all(source.name)


def _excluded(source: Source, engine: sa.Engine | None) -> Callable[[str], str]:
    """Why the settings let no mirror of a table follow, in words; empty if they let it."""
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.patterns import is_selected, matches
    from strata_cdc.selection.wanted import folds_names

    folded = engine is not None and folds_names(source.name, engine)

    def excluded(table: str) -> str:
        name, settings = TableName(*table.split(".", 1)), source.settings
        if not matches(name, settings.mirrors, folded=folded):
            return "does not follow: `mirrors` in the settings does not name it"
        if not is_selected(name, settings.tables, settings.exclude, folded=folded):
            return "does not follow: the settings do not name the table: its changes are not published"
        return ""

    return excluded


def _state(mirror: ListedMirror, waiting: TableToRead | None, excluded: str) -> str:
    """What a mirror does, in words: it follows, or why it does not."""
    others = (
        f"changed by others: version {', '.join(map(str, mirror.changed_by_others))}"
        if mirror.changed_by_others
        else ""
    )
    again = "" if waiting is None else f"to be read again: {waiting.reason}"
    cannot = mirror.error and f"cannot be opened: {mirror.error}"
    state = cannot or others or mirror.stopped or excluded or again or ("" if mirror.dropped else "follows")
    return ": ".join(filter(None, ("dropped" if mirror.dropped else "", state)))


@GROUP.command()
def compact(context: typer.Context, source: SourceName = None, table: Tables = None) -> int:
    """Makes whole files of small and half-dead ones; no row changes, and readers are not disturbed.

    Exit code 1 if a mirror is left as it is because somebody else writes to it or has changed it.
    """
    from strata_cdc.lake.known_lake import known_if_stored
    from strata_cdc.mirrors.follow.upkeep import compact_mirrors
    from strata_cdc.mirrors.lock import MirrorLocks

    configured = known_if_stored(source_of(source))
    locks = MirrorLocks(configured.lake, configured.name, configured.lock_place)
    done = compact_mirrors(configured.lake, configured.name, _matching(table), locks=locks)
    _require(configured.name, table, done)
    return _show_upkeep(context, done)


@GROUP.command()
def vacuum(
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    retain_hours: Annotated[int, typer.Option(min=0, help="How long former states stay readable.")] = 168,
) -> int:
    """Deletes files that no state of the mirrors needs which is younger than that. Exit codes are `compact`'s."""
    from strata_cdc.lake.known_lake import known_if_stored
    from strata_cdc.mirrors.follow.upkeep import vacuum_mirrors
    from strata_cdc.mirrors.lock import MirrorLocks

    configured = known_if_stored(source_of(source))
    done = vacuum_mirrors(
        configured.lake,
        configured.name,
        _matching(table),
        locks=MirrorLocks(configured.lake, configured.name, configured.lock_place),
        now_micros=now_micros(),
        retain_hours=retain_hours,
    )
    _require(configured.name, table, done)
    return _show_upkeep(context, done)


@GROUP.command()
def keep(context: typer.Context, source: SourceName = None) -> int:
    """Compacts mirrors that the settings have for worn, and vacuums all, as the DAG `keep_mirrors`: for a scheduler.

    Exit codes are `compact`'s.
    """
    from strata_cdc.pipeline.keep_mirrors import keep_mirrors

    settings = load_settings(os.environ)
    return _show_upkeep(context, keep_mirrors(settings.source_name(source), settings=settings))


def _show_upkeep(context: typer.Context, done: Sequence[KeptUp]) -> int:
    if context.obj["json"]:
        print_lines(done)
    else:
        for kept in done:
            if kept.summary() is not None:
                say(f" {kept.table}  {kept.summary()}")
    return 1 if any(kept.left for kept in done) else 0


@GROUP.command()
def verify(
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Compare about so many rows of each mirror with the server; all without.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no server.")] = False,  # noqa: FBT002  a switch of the command line
) -> int:
    """Holds each change against what the changes before it left, then the mirrors' rows against the server's.

    Exit code 0 if all match, 1 if one differs or cannot be compared.
    """
    from strata_cdc.mirrors.follow.upkeep import mirrored
    from strata_cdc.pipeline import comparisons
    from strata_cdc.quality.reconcile.report import ComparisonOutcome

    settings = load_settings(os.environ)
    configured = settings.source(source)
    names = mirrored(configured.lake, configured.name, _matching(table))
    watch = print_line if context.obj["json"] else show
    reports = [comparisons.verify_changes(configured.name, settings=settings, names=names, watch=watch)]
    if not offline:
        reports.append(comparisons.reconcile(configured.name, settings=settings, names=names, keys=keys, watch=watch))
    return 0 if all(report.outcome is ComparisonOutcome.MATCH for report in reports) else 1


def _matching(patterns: list[str] | None) -> Callable[[TableName], bool]:
    return lambda table: not patterns or any(fnmatchcase(str(table), pattern) for pattern in patterns)
