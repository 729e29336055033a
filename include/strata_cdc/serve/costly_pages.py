"""How many pages are made at once that read many rows: memory and processors are also needed by others.
Not here: the pages (`row_page.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import AlreadyRunningError

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_ONCE: Final = 2
_WAIT_SECONDS: Final = 20.0


class CostlyPages:
    """The pages that are being made."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def making(self, source: str) -> Iterator[None]:
        """Within the block a page is made.

        Raises:
            AlreadyRunningError: Others are being made, and have not ended after a while.
        """
        if not self._free.acquire(timeout=_WAIT_SECONDS):
            raise AlreadyRunningError(
                f"{_AT_ONCE} pages with rows are being made", source=source, remedy="Load the page again in a moment."
            )
        try:
            yield
        finally:
            self._free.release()
