"""Something that comes between a call and the called function: a process dies before a write, a function fails for one
table, the machine gives another answer. What the code takes as an argument needs no interposition."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Place = tuple[Any, str]
"""A module or class, and the name of a function in it."""


@contextmanager
def interposed(between: Callable[..., Any], *places: Place) -> Iterator[None]:
    """Within the block, calls of these functions are calls of `between`, with the function before the arguments."""
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in places:
            patched.setattr(owner, name, _called(getattr(owner, name), between))
        yield


def _called(function: Callable[..., Any], between: Callable[..., Any]) -> Callable[..., Any]:
    # A function, since a class binds `self` to nothing else.
    def called(*given: Any, **named: Any) -> Any:
        return between(function, *given, **named)

    return called
