"""A run on S3 that is killed before and after each of its requests that write to change tables, and then done again:
`dying_on_s3 FOLDER RULES`, with a store behind a proxy (`tests/store_proxy.py`) that reads these rules. Prints a line
for each death, as JSON. One child for each, forked before anything has opened a connection or started a thread."""

from __future__ import annotations

import json
import os
import sys
import traceback
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas  # noqa: F401, ICN001  pyarrow loads it with the first table: once here, not in each child

from strata_cdc.pipeline.plan.pending import RunRequest
from tests.pipeline.owed_world import MINUTE, TABLES, World
from tests.s3_server import BUCKET
from tests.store_proxy import DEATHS

if TYPE_CHECKING:
    from collections.abc import Callable

WRITING: Final = "PUT|POST|DELETE"
CHANGES: Final = "/changes/"
"""The folders of change tables: files where tasks write them, the note of the interval, commits that name files."""


def world_of(folder: Path) -> World:
    """A source that has published an interval of two tables, and has more of all three."""
    return World(folder, lake=f"s3://{BUCKET}/{folder.name}")


def begin(world: World) -> None:
    for table in TABLES[:2]:
        world.change(table, [1, 2])
    world.now += MINUTE
    world.run(RunRequest())


def more(world: World) -> None:
    """What the run that is killed publishes: commits of two tables, and a new one."""
    for table in TABLES:
        world.change(table, [3, 4, 5])
    world.now += MINUTE


def in_child(work: Callable[[], None], ready: Callable[[int], object] = lambda _: None) -> bool:
    """Whether a process that does the work survives it; `ready` gets its id before it begins."""
    mine, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(mine, 1)
        try:
            work()
        except BaseException:  # noqa: BLE001  a child of a test ends here, whatever it was
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ready(child)
    os.write(its, b".")
    _, status = os.waitpid(child, 0)
    os.close(mine)
    os.close(its)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return True
    return False


def seen(world: World) -> list[int]:
    """How many rows of each table readers see."""
    return [world.published(table).total() for table in TABLES]


def finish(folder: Path, report: Path) -> None:
    """What is there after the death, and after the same run again."""
    world = world_of(folder)
    for table in TABLES[:2]:
        world.change(table, [1, 2])
    world.now += MINUTE
    world.land_only()
    more(world)
    before = seen(world)
    world.run(RunRequest())
    world.assert_nothing_is_lost()
    report.write_text(json.dumps([before, seen(world)]))


def die(folder: Path, rules: Path, number: int, death: str) -> bool:
    """Kills a run at one request, and does it again; whether there was no such request. Prints a line."""
    waiting, report = folder.parent / "rules", folder.parent / "report"

    def work() -> None:
        world = world_of(folder)
        begin(world)
        more(world)
        # Only of what comes now.
        rules.write_text(waiting.read_text())
        world.run(RunRequest())

    survived = in_child(
        work, lambda child: waiting.write_text(json.dumps([[WRITING, CHANGES, number, f"{death} {child}"]]))
    )
    rules.write_text("[]")
    assert in_child(lambda: finish(folder, report))
    sys.stdout.write(json.dumps([number, death, survived, *json.loads(report.read_text())]) + "\n")
    sys.stdout.flush()
    return survived


def main(root: str, rules: str) -> None:
    """Kills at one request more each time, until a child survives."""
    deaths = ((number, death) for number in count(1) for death in DEATHS)
    any(die(Path(root) / f"{death}{number}", Path(rules), number, death) for number, death in deaths)


if __name__ == "__main__":
    main(*sys.argv[1:])
