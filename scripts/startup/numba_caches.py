"""Deletes what Numba has cached and cannot read any more. Its index of a function names the classes of arguments: where
one was renamed or has moved, or the file is damaged, Numba raises what unpickling does, before it looks whether the
function's source has changed (numba/core/caching.py, `IndexDataCacheFile._load_index`).
Not here: caches of other sources, which Numba itself makes anew."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def delete_unreadable(folder: Path) -> list[str]:
    """Deletes the indexes that cannot be read, with the machine code that they list.

    Args:
        folder: In which, or below which, they lie.

    Returns:
        The names of the indexes.
    """
    found = [index for index in sorted(folder.rglob("*.nbi")) if not _is_readable(index)]
    for index in found:
        for path in (index, *_code_of(index)):
            path.unlink(missing_ok=True)
    return [index.name for index in found]


def _is_readable(index: Path) -> bool:
    try:
        with index.open("rb") as file:
            # The version of Numba, then the stamp of the source and what was compiled.
            pickle.load(file)
            pickle.load(file)
    except Exception:  # noqa: BLE001  what is damaged may raise anything
        return False
    return True


def _code_of(index: Path) -> Iterator[Path]:
    """`NAME.3.nbc` for each choice of types."""
    return (path for path in index.parent.iterdir() if path.suffix == ".nbc" and path.stem.startswith(f"{index.stem}."))
