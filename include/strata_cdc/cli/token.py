"""`strata token`: event tokens shown, compared, merged and cut down; by their texts alone, no source is queried. Of the
settings, if there are any, only the clocks' bound is read.
Not here: what tokens mean (`position/token.py`), their text form (`position/token_text.py`)."""

from __future__ import annotations

import json
import math
import os
from typing import Annotated

import typer

from strata_cdc.cli.report import print_report
from strata_cdc.errors import Usage
from strata_cdc.position.token import Token, merge
from strata_cdc.position.token_shown import shown
from strata_cdc.position.token_text import from_text, to_text

GROUP = typer.Typer(help="Event tokens: where a stream is, as a text.", no_args_is_help=True)


@GROUP.command()
def show(context: typer.Context, token: Annotated[str, typer.Argument(help="An event token.")]) -> None:
    """Shows what is in a token, source by source."""
    as_json = bool(context.obj["json"])
    for source_position in from_text(token).positions:
        facts = shown(source_position)
        if not as_json:
            copied = facts.get("copied", ())
            facts["copied"] = [" ".join(str(part) for part in origin.values() if part) for origin in copied]
        print_report(facts, as_json=as_json)


@GROUP.command()
def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="An event token.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The token to compare it with.")],
    clock_bound: Annotated[
        float | None,
        typer.Option(
            min=0,
            envvar="STRATA_CLOCK_BOUND",
            show_envvar=True,
            help="Seconds by which the servers' clocks may differ: tells sources apart by commit times. Without it "
            "clock_bound of the settings, if STRATA_SETTINGS names some.",
        ),
    ] = None,
) -> None:
    """Prints how A lies to B: before, after, equal or unknown.

    Before: a server that has reached B has executed everything that A contains. Unknown: neither contains the other, or
    they are of two histories.
    """
    bound = _bound_of_settings() if clock_bound is None else _micros(clock_bound)
    _answer(context, "order", from_text(a).compare(from_text(b), clock_bound=bound))


def _micros(seconds: float) -> int:
    if not math.isfinite(seconds):
        raise Usage(f"the clocks' bound is {seconds}", remedy="Give seconds, as in --clock-bound 0.5.")
    return int(seconds * 1_000_000)


def _bound_of_settings() -> int | None:
    # Imported here: a token is compared where there are no settings, and sooner.
    from strata_cdc.config.settings import are_given, load_settings

    return load_settings(os.environ).clock_bound if are_given(os.environ) else None


@GROUP.command("merge")
def merged(
    context: typer.Context, tokens: Annotated[list[str], typer.Argument(metavar="TOKEN...", help="Event tokens.")]
) -> None:
    """Prints the least token that is at or after all of these."""
    _answer(context, "token", to_text(merge(map(from_text, tokens))))


@GROUP.command()
def without(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="An event token.")],
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Sources to leave out.")],
) -> None:
    """Prints a token without some of its sources: for a group that these have left."""
    positions = from_text(token).positions
    names = [source_position.source for source_position in positions]
    unknown = sorted(set(sources) - set(names))
    if unknown:
        raise Usage(
            f"the token does not name {', '.join(unknown)}; it names {', '.join(names) or 'no source'}",
            remedy="`strata token show TOKEN` shows what is in it.",
        )
    left = tuple(source_position for source_position in positions if source_position.source not in sources)
    if not left:
        raise Usage("the token names no other source", remedy="Leave a source in it.")
    _answer(context, "token", to_text(Token(left)))


def _answer(context: typer.Context, name: str, value: str) -> None:
    typer.echo(json.dumps({name: value}) if context.obj["json"] else value)
