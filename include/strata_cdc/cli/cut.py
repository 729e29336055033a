"""`strata cut`: the newest positions at which all sources of a group are read together.
Not here: finding them (`groups/cuts/`)."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from strata_cdc.cli.options import optional_time
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import say_exactly
from strata_cdc.clock import now_micros
from strata_cdc.config.settings import load_settings


def cut(
    context: typer.Context,
    group: Annotated[str, typer.Option(help="A group of the settings.")],
    at: Annotated[str | None, typer.Option(help="A time (ISO 8601, UTC): the newest cut that is not after it.")] = None,
) -> None:
    """Prints the token of the newest common cut of a group, and its position in each source."""
    from strata_cdc.groups.cuts.common_cut import common_cut

    answer = common_cut(load_settings(os.environ).group(group), now=now_micros(), at=optional_time(at)).to_json()
    if context.obj["json"]:
        print_line(answer)
        return
    say_exactly(f"{answer['token']}")
    say_exactly(f"  {answer['group']} at {answer['time']}")
    if answer["is_common"] is False:
        say_exactly("  no time is the end of an interval of all: run the sources up to one (`strata run --until TIME`)")
    for position in answer["sources"]:
        later = "; more of it was committed before that time" if position["is_behind"] else ""
        doubt = f"; not known to be common: {position['clock_doubt']}" if position["clock_doubt"] else ""
        lacking = f"; not whole: {', '.join(position['lacking'])}" if position["lacking"] else ""
        say_exactly(
            f"  {position['source']}: transaction {position['seq']}, {position['gtid_executed'] or 'nothing'}"
            f"{later}{doubt}{lacking}"
        )
