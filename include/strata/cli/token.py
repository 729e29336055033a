"""`strata token`: event tokens shown, compared and merged; by their texts alone, no source is asked.
Not here: what tokens mean (`gtid/token.py`), their text form (`gtid/token_text.py`)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strata.cli.report import print_report
from strata.gtid.token import FilePosition, merge
from strata.gtid.token_text import from_text, to_text

if TYPE_CHECKING:
    from strata.gtid.token import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def show(context: typer.Context, token: Annotated[str, typer.Argument(help="An event token.")]) -> None:
    """Shows what is in a token, source by source."""
    as_json = bool(context.obj["json"])
    for place in from_text(token).places:
        print_report(_plain(place), as_json=as_json)


def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="An event token.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The token to compare it with.")],
    clock_bound: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds by which the servers' clocks may differ: tells sources apart by commit times."
        ),
    ] = None,
) -> None:
    """Prints how A lies to B: before, after, equal or unknown.

    Before: who has reached B has executed all that A stands for. Unknown: neither holds the other, or they are of two
    histories.
    """
    bound = None if clock_bound is None else int(clock_bound * 1_000_000)
    _answer(context, "order", from_text(a).compare(from_text(b), clock_bound=bound))


def merged(
    context: typer.Context, tokens: Annotated[list[str], typer.Argument(metavar="TOKEN...", help="Event tokens.")]
) -> None:
    """Prints the least token that is at or after all of these."""
    _answer(context, "token", to_text(merge(map(from_text, tokens))))


def _answer(context: typer.Context, name: str, value: str) -> None:
    typer.echo(json.dumps({name: value}) if context.obj["json"] else value)


def _plain(place: Place) -> dict[str, Any]:
    found = place.position
    executed = (
        {"binlog_file": found.at.file, "binlog_pos": found.at.offset, "server_uuid": found.server_uuid}
        if isinstance(found, FilePosition)
        else {"gtid_executed": str(found)}
    )
    inside = found.steps if isinstance(found, FilePosition) else {str(part.gtid): part.steps for part in place.parts}
    when = (_EPOCH + timedelta(microseconds=place.committed_at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "source": place.source,
        **executed,
        "committed_at": when if place.committed_at else None,
        "lineage": place.lineage or None,
        **({"inside": inside} if inside else {}),
    }


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(name="token", help="Event tokens: where a stream is, as a text.", no_args_is_help=True)
    group.command()(show)
    group.command()(compare)
    group.command("merge")(merged)
    app.add_typer(group)
