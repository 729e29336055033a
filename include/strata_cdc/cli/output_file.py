"""Where a command writes a text: standard output, or a file that is there once all of it is written.
Not here: rows of `strata decode`, which may go on for hours (`rows_out.py`)."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO


@contextmanager
def open_output(out: str) -> Iterator[TextIO]:
    """The place of a text, in a `with` block that writes all of it.

    A file gets its name at the end of the block: half of a script, or of a table, must not look like all of it. If the
    block fails, what was there before stays. Pipes and devices are written to as they are.

    Args:
        out: A path, or `-` for standard output.

    Raises:
        Usage: The file cannot be written.
    """
    if out == "-":
        yield sys.stdout
        return
    path = Path(out)
    is_file = path.is_file() or not path.exists()
    written = path.with_name(f"{path.name}.part") if is_file else path
    try:
        with written.open("w", encoding="utf-8", newline="") as file:
            yield file
        if is_file:
            written.replace(path)
    except OSError as error:
        raise Usage(f"the output cannot be written: {error.strerror}", file=out) from error
    finally:
        if is_file:
            # What could not be made is not there, either.
            with suppress(OSError):
                written.unlink(missing_ok=True)
