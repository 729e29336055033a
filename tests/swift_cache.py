"""What Swift's proxy keeps of accounts and containers between requests, in its own memory: without a cache, it asks two
servers for them at each request. Swift itself only has memcached's, a server more.
Not here: the servers (`swift_server.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Cache:
    """What Swift calls of its client of memcached."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, float]] = {}

    def get(self, key: str, *_: object, **__: object) -> Any:
        """What is kept; None for nothing."""
        value, end = self._kept.get(key, (None, 0.0))
        return value if time.monotonic() < end else None

    def set(self, key: str, value: object, **options: Any) -> None:
        """Keeps it for so many seconds as its `time` says."""
        self._kept[key] = value, time.monotonic() + options["time"]

    def delete(self, key: str, *_: object) -> None:
        """Forgets it."""
        self._kept.pop(key, None)


def filter_factory(_: dict[str, str], **__: str) -> Callable[[Any], Any]:
    """As paste calls it."""
    cache = Cache()

    def cached(app: Any) -> Any:
        def call(environ: dict[str, Any], start_response: Any) -> Any:
            environ["swift.cache"] = cache
            return app(environ, start_response)

        return call

    return cached
