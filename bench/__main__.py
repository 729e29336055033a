"""All benchmarks, each beside what a user would take instead where there is such a thing.

Run it: `python -m bench [NAME [ARGUMENT...]]`; without a name all of them, and what they print goes to
`bench/notes/last_run.md`, too. `bench/RESULTS.md` compares it with the goals.
Every number is of one run on one machine: compare the ratios.
"""

from __future__ import annotations

import importlib
import io
import os
import platform
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

from bench.timing import LOG

LAST_RUN = Path(__file__).with_name("notes") / "last_run.md"
NAMES = (
    "decode",
    "ddl",
    "history",
    "landing",
    "streams",
    "caches",
    "groups",
    "positions",
    "checks",
    "mirrors",
    "dump",
    "follow",
    "past",
    "ticdc",
    "driver",
)
INTRODUCTION = """# The last run of all benchmarks

By `make bench`, in one run on one machine, tools in turn, medians of five. `times` is how much faster than
the server's own tool on the same file (`mysqlbinlog -v`, `mariadb-binlog -vv`), which prints text without names and
knows no schema.
"""


class _Tee(io.TextIOBase):
    """Writes what is printed to the screen at once, and keeps it."""

    def __init__(self) -> None:
        self.kept = io.StringIO()

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]  # a terminal or a file is there
        sys.__stdout__.flush()  # type: ignore[union-attr]  # as above
        return self.kept.write(text)


def main(arguments: list[str]) -> None:
    """Runs one benchmark, or all, and names the file of what the measured programs said beside their output."""
    LOG.unlink(missing_ok=True)
    try:
        _run(arguments)
    finally:
        if LOG.exists() and LOG.stat().st_size:
            print(f"\nwarnings of what was measured: {LOG}", file=sys.stderr)


def _run(arguments: list[str]) -> None:
    if arguments:
        importlib.import_module(f"bench.{arguments[0]}").main(arguments[1:])
        return
    tee = _Tee()
    with redirect_stdout(tee):
        print(
            f"{time.strftime('%Y-%m-%d')}, {_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        )
        for name in NAMES:
            print(f"\n== {name} ==", flush=True)
            importlib.import_module(f"bench.{name}").main([])
    LAST_RUN.write_text(f"{INTRODUCTION}\n```text\n{tee.kept.getvalue()}```\n", encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main(sys.argv[1:])
