"""How many DDL statements a second are read and applied, without a store: `python -m bench ddl [SECONDS]` (default 5).
The statements are those of the golden cases and random sequences, as a server with default settings logs them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from strata_cdc.schema.ddl.context import DdlContext  # noqa: E402
from strata_cdc.schema.ddl.read import read_ddl_or_gap  # noqa: E402
from strata_cdc.schema.replay.catalog import Catalog  # noqa: E402 - the paths come first
from tests.schema.golden import CASES, context_from  # noqa: E402
from tests.schema.sequences import Sequence  # noqa: E402

Events = list[tuple[str, DdlContext]]


def golden() -> Events:
    """The statements of all golden cases, long ones among them."""
    steps = (step for path in sorted(CASES.glob("*.json")) for step in json.loads(path.read_text())["steps"])
    return [(event["statement"], context_from(event["context"])) for step in steps for event in step["events"]]


def everyday() -> Events:
    """What applications and their migrations write: tables of some ten columns, and ALTERs of one or two steps."""
    context = DdlContext("s")
    found: Events = [("CREATE DATABASE s", context)]
    for seed in range(50):
        found += [(statement, context) for statement in Sequence(Random(seed), "s").statements(20)]
    return found


def measure(name: str, events: Events, seconds: float) -> None:
    """Reads and applies all events again and again, and prints statements a second of the best round."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        catalog = Catalog()
        begin = time.perf_counter()
        for statement, context in events:
            catalog.apply(read_ddl_or_gap(statement, context))
        best = min(best, time.perf_counter() - begin)
    size = sum(len(statement) for statement, _ in events) / len(events)
    print(
        f"{name}: {len(events) / best:,.0f} statements/s ({len(events)} statements, {size:.0f} characters on average)"
    )


def main(arguments: list[str]) -> None:
    """Prints one line for each set of statements."""
    seconds = float(arguments[0]) if arguments else 5
    measure("golden cases", golden(), seconds)
    measure("random sequences", everyday(), seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
