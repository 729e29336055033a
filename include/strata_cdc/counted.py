"""Numbers of things as a sentence has them: `1 row`, `2,000 rows`.
Not here: the sentences."""

from __future__ import annotations


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number with what is counted.

    Args:
        number: How many.
        thing: One of them, as in `row`.
        things: Several, where that is not `thing` with an s: `versions of it`, `entries`.
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
