"""What the command writes to: every text goes out, whatever the locale is, and closed streams take it in silence.
Not here: what is printed (`terminal.py`), files that a command writes (`output_file.py`)."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Final

_LAST_STREAM: Final = 2
"""The descriptor of the standard error."""


def prepare_streams() -> None:
    """Makes both streams of a process so that they take all names and values of a server.

    Python opens them with the locale's charset, and refuses every other character. Files and programs get UTF-8, the
    charset of JSON and of everything else that Strata writes; a terminal gets its own, with escapes for the rest.
    """
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        _fill_descriptors()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  for the whole process
        elif isinstance(stream, TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _fill_descriptors() -> None:
    """Opens those of the first three that were closed when the process began.

    The next files would get their numbers: libraries that write warnings to number 2 would write them into one. Python
    only has None in their places (Python/pylifecycle.c, `init_sys_streams`).
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
        pass
    os.close(opened)
