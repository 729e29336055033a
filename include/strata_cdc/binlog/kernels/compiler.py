"""Compiles kernels with Numba: for a machine without a linked library, and for arguments for which it has no code.
Not here: kernels. This module, and with it Numba, is imported only when something must be compiled."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba

from strata_cdc.binlog.kernels import intrinsics
from strata_cdc.startup import processor

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBERS = ("grammar.py", "layout.py", "records.py", "status.py", "words.py")
_CONSTANTS = frozenset([*(str(Path(__file__).with_name(name)) for name in _NUMBERS), processor.__file__])
"""Files whose numbers become constants in kernels of other files."""


def compiled(function: Callable[..., Any], *, inline: bool) -> Any:
    """Machine code for a function, made on its first call with each set of types and kept in a cache on disk.

    Args:
        function: Called functions that are kernels must have been compiled before.
        inline: Whether it becomes a part of each function that calls it.
    """
    options = {"forceinline": True} if inline else {}
    kernel: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if kernel is not function:  # NUMBA_DISABLE_JIT returns the function itself.
        _stamp_with_callees(kernel, function)
    return kernel


@cache
def _content(path: str) -> bytes:
    return Path(path).read_bytes()


def _stamp_with_callees(compiled: Any, function: Callable[..., object]) -> None:
    """Makes the cache depend on the source of the kernels that this kernel calls.

    Numba 0.68 stamps a cached kernel with the hash of its own file. After an edit of a callee in another file, the old
    callee would stay inlined in the new program (numba/core/caching.py, `_CacheLocator.get_source_stamp`).
    """
    sources = {function.__code__.co_filename, intrinsics.__file__, *_CONSTANTS}
    for name in function.__code__.co_names:
        sources |= getattr(function.__globals__.get(name), "kernel_sources", frozenset())
    compiled.kernel_sources = frozenset(sources)
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(_content(source))
    cache_file = getattr(compiled._cache, "_cache_file", None)  # noqa: SLF001 - Numba has no public way
    if cache_file is not None:
        cache_file._source_stamp = digest.hexdigest()  # noqa: SLF001 - as above
