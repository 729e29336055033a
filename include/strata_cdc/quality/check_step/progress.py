"""What a check logs while it runs: at its start, every five seconds, at its end.
Not here: the bar of a terminal (`cli/check.py`)."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata_cdc.counted import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRESS_SECONDS = 5.0
_SO_FAR = re.compile(r"checked ([\d,]+) of ([\d,]+) files, ([\d,]+) of ([\d,]+) rows")


class CheckProgress:
    """Log lines about a check; may be called from any thread."""

    def __init__(self, write: Callable[[str], None] = lambda _: None, seconds: float = PROGRESS_SECONDS) -> None:
        """Takes where the lines go.

        Args:
            write: Takes one line without its end.
            seconds: Between two lines.
        """
        self._write = write
        self._seconds = seconds
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._measure: Callable[[], tuple[int, int]] | None = None
        self._done = (0, 0)
        self._all = (0, 0)

    @contextmanager
    def running(self, tables: int, files: int, rows: int, rules: int) -> Iterator[None]:
        """Inside this block, progress is logged every few seconds."""
        self._began = time.monotonic()
        self._all = (files, rows)
        parts = (counted(rows, "row"), counted(tables, "table"), counted(files, "file"), counted(rules, "rule"))
        self._write("checking {} of {} in {} against {}".format(*parts))
        over = threading.Event()

        def tell() -> None:
            while not over.wait(self._seconds):
                self.show(*self._so_far(), *self._all)

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()

    @contextmanager
    def following(self, measure: Callable[[], tuple[int, int]]) -> Iterator[None]:
        """Inside this block, `measure` returns how many files and rows are done."""
        self._measure = measure
        try:
            yield
        finally:
            self._measure = None

    def advance(self, files: int, rows: int) -> None:
        """So many more are done."""
        with self._lock:
            self._done = (self._done[0] + files, self._done[1] + rows)

    def show(self, files: int, rows: int, all_files: int, all_rows: int) -> None:
        """Logs how far the check is."""
        self._write(f"checked {files:,} of {all_files:,} files, {rows:,} of {all_rows:,} rows")

    def tell(self, line: str) -> None:
        """Logs another line."""
        self._write(line)

    def end(self, checks: int, errors: int, warnings: int) -> None:
        """Logs the result."""
        files, rows = self._all
        seconds = time.monotonic() - self._began
        self._write(
            f"checked {counted(rows, 'row')} in {counted(files, 'file')} in {seconds:.1f} s: "
            f"{counted(checks, 'check')}, {counted(errors, 'error')}, {counted(warnings, 'warning')}"
        )

    def hear(self, line: str) -> None:
        """Takes a line of another process that `write` was given there; other lines are left alone."""
        match = _SO_FAR.fullmatch(line.strip())
        if match is not None:
            files, all_files, rows, all_rows = (int(number.replace(",", "")) for number in match.groups())
            self.show(files, rows, all_files, all_rows)

    def _so_far(self) -> tuple[int, int]:
        return self._done if self._measure is None else self._measure()
