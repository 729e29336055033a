"""A step that is tried again, as a scheduler does.
Not here: what makes it fail (`tests/store_proxy.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 8


def until_done(step: Callable[[], object], tries: int = TRIES) -> None:
    """Tries a step again as long as it fails with what another try may mend.

    Raises:
        Transient: The last try's.
    """
    for _ in range(tries - 1):
        try:
            step()
        except Transient:
            continue
        return
    step()
