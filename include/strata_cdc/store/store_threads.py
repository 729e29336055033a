"""Answers of a store that are read on threads while others are: with 10,000 tables each takes tenths of a second, most
of it the database's own.
Not here: connections (`database.py`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from sqlalchemy.pool import StaticPool

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

P = ParamSpec("P")
T = TypeVar("T")
_THREADS: Final = 2


class StoreThreads:
    """A `with` block that waits for its threads."""

    def __init__(self, engine: sa.Engine) -> None:
        # All threads share the one connection of a store in memory, where a transaction cannot begin in another one.
        self._threads = None if isinstance(engine.pool, StaticPool) else ThreadPoolExecutor(_THREADS, "side by side")

    def __enter__(self) -> StoreThreads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown()

    def begin(self, read: Callable[P, T], *args: P.args, **options: P.kwargs) -> Callable[[], T]:
        """Begins to read; what it returns waits for the answer, and raises what reading raised."""
        if self._threads is None:
            return partial(read, *args, **options)
        return self._threads.submit(read, *args, **options).result
