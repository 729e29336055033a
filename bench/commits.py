"""What publishing an interval costs in a table with many commits of one file each, beside a table with a hundred: with
all files live, and after upkeep has merged them; with all commits in the log, and with those that upkeep leaves.

Run it: `python -m bench commits [COMMITS]` (default 20,000).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.timing import python
from strata_cdc.runs.specs import Interval
from strata_cdc.tables.commit import publish
from strata_cdc.tables.layout import interval_key, table_url
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, inserts, stage

ROUNDS = 9
FEW = 100
_OPENING = """
import sys, time
from strata_cdc.tables.outputs import OUTPUT
begin = time.process_time()
OUTPUT.open(sys.argv[1])
print(time.process_time() - begin)
"""
_CHECKPOINT = """
import sys, time
from strata_cdc.tables.delta.checkpoint import write_checkpoint
begin = time.process_time()
write_checkpoint(sys.argv[1], int(sys.argv[2]))
print(time.process_time() - begin)
"""


def build(lake: Path, commits: int, *, live: int) -> None:
    """A table of so many commits, of which the last so many files are live; each commit before removes its file's
    predecessor."""
    put(lake, 0)
    put(lake, 1)
    log = Path(table_url(str(lake), SOURCE, ORDERS)) / "_delta_log"
    template = [json.loads(line) for line in max(log.glob("*.json")).read_text().splitlines()]
    first = len(list(log.glob("*.json")))
    for number in range(first, commits):
        (log / f"{number:020d}.json").write_text(_commit(template, number, live))


def put(lake: Path, number: int) -> float:
    """Publishes an interval, and returns CPU seconds."""
    run, interval = lake / "runs" / f"r{number}", INTERVAL + number * FIVE_MINUTES
    staged = stage(run, inserts({"id": pa.int32()}, [{"id": number}], first_seq=10 * number + 1), interval=interval)
    begin = time.process_time()
    span = Interval(interval, interval + FIVE_MINUTES, 10 * number, 10 * number + 10, "")
    publish(str(lake), SOURCE, ORDERS, interval, staged, span=span)
    return time.process_time() - begin


def _commit(template: list[dict[str, Any]], number: int, live: int) -> str:
    lines = []
    for action in template:
        kind, content = next(iter(action.items()))
        content = json.loads(json.dumps(content))
        if kind == "txn":
            content["version"] = number
        if kind == "add":
            content |= _file(content, number)
            stats = json.loads(content["stats"])
            stats["minValues"]["_seq"] = stats["maxValues"]["_seq"] = 10 * number + 1
            content["stats"] = json.dumps(stats)
            if number - live > 1:
                gone = {"dataChange": False, "deletionTimestamp": 1, "extendedFileMetadata": False}
                lines.append(json.dumps({"remove": {**gone, **_file(content, number - live)}}))
        lines.append(json.dumps({kind: content}))
    return "\n".join(lines) + "\n"


def _file(content: dict[str, Any], number: int) -> dict[str, Any]:
    interval = INTERVAL + number * FIVE_MINUTES
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(interval // 1_000_000))
    path = f"data/{interval_key(interval)}/{content['path'].rpartition('/')[2]}"
    return {"path": path, "partitionValues": dict.fromkeys(content["partitionValues"], moment)}


def _measured(lake: Path, commits: int) -> tuple[float, float, float, int]:
    """CPU seconds of a publication and of opening the table in another process, its peak MB, files of the log."""
    put(lake, commits)  # what the first loads and compiles
    seconds = statistics.median(put(lake, commits + 1 + number) for number in range(ROUNDS))
    url = table_url(str(lake), SOURCE, ORDERS)
    opened = python(_OPENING, url)
    return seconds, opened.seconds, opened.megabytes, sum(1 for _ in (Path(url) / "_delta_log").iterdir())


def main(arguments: list[str]) -> None:
    """Prints a line for each kind of table."""
    many = int(arguments[0]) if arguments else 20_000
    cases = (
        ("a hundred", FEW, FEW, False),
        (f"{many:,}, all files live", many, many, False),
        (f"{many:,}, files merged", many, FEW, False),
        (f"{many:,}, files merged, log cut", many, FEW, True),
    )
    base = 0.0
    for name, commits, live, is_cut in cases:
        with tempfile.TemporaryDirectory(prefix="strata-commits-") as text:
            lake = Path(text)
            build(lake, commits, live=live)
            url = table_url(str(lake), SOURCE, ORDERS)
            made = python(_CHECKPOINT, url, str(commits - 1))
            if is_cut:
                _cut(Path(url) / "_delta_log", commits - FEW)
            seconds, opening, megabytes, files = _measured(lake, commits)
            base = base or seconds
            print(
                f"{name:32} publish {seconds * 1000:7.1f} ms CPU, {seconds / base:5.2f} times; open "
                f"{opening * 1000:6.1f} ms, {megabytes:4.0f} MB; checkpoint {made.seconds:5.2f} s CPU, "
                f"{made.megabytes:5.0f} MB; {files:,} files of the log",
                flush=True,
            )


def _cut(log: Path, before: int) -> None:
    for path in log.glob("*.json"):
        if path.name[:20].isdigit() and int(path.name[:20]) < before:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
