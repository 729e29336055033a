"""Seconds and memory of a command, and tables of them; what it says beside its output goes to `LOG`.
Not here: what is measured."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Name = TypeVar("Name")
LOG = Path(__file__).resolve().parents[1] / ".strata" / "bench.log"
"""Standard error of all commands: Spark's warnings must not stand between the tables."""


@dataclass(frozen=True)
class Run:
    """One run of a command."""

    seconds: float
    megabytes: float
    """Most memory that it and its children held at once (resident), seen every 20 ms."""
    cpu_seconds: float
    output: str = ""


def run(command: Sequence[str | Path]) -> Run:
    """Runs a command to its end, its output kept if it is short, and thrown away by `quietly`."""
    return _run(command, keep=True)


def quietly(command: Sequence[str | Path]) -> Run:
    """The same, with all that it prints sent to nowhere."""
    return _run(command, keep=False)


def python(code: str, *arguments: str | Path) -> Run:
    """A Python process of its own; `seconds` is what it prints as the first word, `output` the rest of the line."""
    done = run([sys.executable, "-c", code, *arguments])
    first, _, rest = done.output.strip().splitlines()[-1].partition(" ")
    return Run(float(first), done.megabytes, done.cpu_seconds, rest)


def _run(command: Sequence[str | Path], *, keep: bool) -> Run:
    LOG.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as output, LOG.open("ab") as log:
        begin = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)), stdout=output if keep else subprocess.DEVNULL, stderr=log, env=as_a_user()
        )
        seen, over = [0], threading.Event()
        watcher = threading.Thread(target=watch_memory, args=(process.pid, seen, over))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        over.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}; the end of {LOG} says why")
        output.seek(0)
        return Run(seconds, seen[0] / 1e6, usage.ru_utime + usage.ru_stime, output.read().decode())


def as_a_user() -> dict[str, str]:
    """The environment without what makes Python compile modules again and again, and with this Python's programs."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PATH": os.pathsep.join([str(Path(sys.executable).parent), given.get("PATH", os.defpath)])}


def watch_memory(pid: int, seen: list[int], over: threading.Event) -> None:
    """Keeps the most memory (bytes) that a process and its children held in `seen[0]`, until `over`.

    What `wait4` says would be the memory of this process if that is larger: it counts what was there before `exec`.
    """
    while not over.wait(0.02):
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
            seen[0] = max(seen[0], sum(each.memory_info().rss for each in family))
        except psutil.Error:
            continue


class ChildrenCpu(threading.Thread):
    """CPU of all processes that this one has while a block is done: Spark's workers are nobody's children at their end,
    so that `wait4` does not count them. What a process used in its last 50 ms is missing."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._seen: dict[int, float] = {}
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self.seconds = sum(self._seen.values())

    def run(self) -> None:
        """Looks on."""
        process = psutil.Process()
        while not self._over.wait(0.05):
            for child in process.children(recursive=True):
                try:
                    used = child.cpu_times()
                except psutil.Error:
                    continue
                self._seen[child.pid] = used.user + used.system


def interleaved(runs: Mapping[Name, Callable[[], Run]], rounds: int) -> dict[Name, list[Run]]:
    """Each in turn, so that a noisy moment meets all of them."""
    found: dict[Name, list[Run]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, once in runs.items():
            found[name].append(once())
    return found


def print_ratios(title: str, found: Mapping[str, Sequence[Run]], *, megabytes: float, rows: int, base: str) -> None:
    """A table of medians; the ratio is the median of the rounds' own ratios to `base`."""
    print(f"\n{title}: {rows:,} changed rows, {megabytes:.0f} MB of binlog")
    print(f"{'':44}{'seconds':>9}{'rows/s':>13}{'MB/s':>8}{'peak MB':>9}{'times':>7}")
    for name, runs in found.items():
        seconds = statistics.median(run.seconds for run in runs)
        ratio = statistics.median(slow.seconds / fast.seconds for slow, fast in zip(found[base], runs, strict=True))
        memory = max(run.megabytes for run in runs)
        print(f"{name:44}{seconds:9.2f}{rows / seconds:13,.0f}{megabytes / seconds:8.0f}{memory:9.0f}{ratio:7.2f}")
