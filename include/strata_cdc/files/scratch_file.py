"""What is too large for memory, in one nameless file of the folder for temporary files: it is gone with its process.
Not here: what is put there (`quality/reconcile/parts.py`, `quality/checks/kept_edges.py`)."""

from __future__ import annotations

import tempfile
from typing import Any, Self

from strata_cdc.errors import LakeUnavailableError


class ScratchFile:
    """Bytes that are appended, and read again; by one thread at a time.

    Args:
        content: What is put there, for errors: "rows of a comparison".
        remedy: What to do if the folder is full, besides making space there or naming another one.
    """

    def __init__(self, content: str, remedy: str = "") -> None:
        self._content, self._remedy = content, remedy
        self._file = tempfile.TemporaryFile(prefix="strata-", buffering=0)  # noqa: SIM115  `close` does

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the file."""
        self._file.close()

    def append(self, content: Any) -> int:
        """Writes bytes, and returns their offset.

        Raises:
            LakeUnavailableError: The folder for temporary files is full.
        """
        begin, written, wanted = self._file.seek(0, 2), 0, memoryview(content).cast("B")
        try:
            while written < len(wanted):
                written += self._file.write(wanted[written:]) or 0
        except OSError as error:
            raise LakeUnavailableError(
                f"the folder for temporary files takes no more {self._content}: {error}",
                remedy=f"Free some space there, or set TMPDIR to another folder{self._remedy}.",
            ) from error
        return begin

    def read_range(self, begin: int, size: int) -> bytes:
        """So many bytes from an offset on."""
        self._file.seek(begin)
        return self._file.read(size)
