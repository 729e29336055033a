"""The one decorator that holds every Numba option.
Not here: kernels. They take numbers and arrays only, check each bound first, and return a code of `status.py`."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if "scipy" in sys.modules:
    import numba
else:
    # Numba looks for BLAS by importing scipy (numba/np/arraymath.py, `_check_blas`): a quarter of a second for each
    # worker and command, and no kernel here uses linear algebra. None makes `import scipy` fail.
    sys.modules["scipy"] = None  # type: ignore[assignment]  # as the import system has it
    try:
        import numba
        import numba.np.arraymath
    finally:
        del sys.modules["scipy"]

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

_CONSTANTS = frozenset(str(Path(__file__).with_name(name)) for name in ("status.py", "layout.py"))
"""Files whose numbers are frozen into kernels of other files."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function on its first call and keeps the machine code in a cache on disk.

    Kernels release the GIL. `NUMBA_DISABLE_JIT=1` leaves them plain Python, `NUMBA_BOUNDSCHECK=1` adds a check to each
    access; the tests run in all three modes. A global that a kernel reads is frozen into the machine code.
    """
    return _compile(function)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that becomes a part of each one that calls it.

    A call hands over seven words for each array, which costs more than a small kernel's work.
    """
    return _compile(function, forceinline=True)


def _compile(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT returns the function itself.
        _stamp_with_callees(compiled, function)
    return compiled  # type: ignore[no-any-return]  # Numba has no types


@cache
def _content(path: str) -> bytes:
    return Path(path).read_bytes()


def _stamp_with_callees(compiled: Any, function: Callable[..., object]) -> None:
    """Makes the cache depend on the source of the kernels that this one calls.

    Numba 0.68 stamps a cached kernel with the hash of its own file, so an edit of a callee in another file would leave
    the old callee inlined in the new program (numba/core/caching.py, `_CacheLocator.get_source_stamp`).
    """
    sources = {function.__code__.co_filename, *_CONSTANTS}
    for name in function.__code__.co_names:
        sources |= getattr(function.__globals__.get(name), "kernel_sources", frozenset())
    compiled.kernel_sources = frozenset(sources)
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(_content(source))
    cache_file = getattr(compiled._cache, "_cache_file", None)  # noqa: SLF001 - Numba has no public way
    if cache_file is not None:
        cache_file._source_stamp = digest.hexdigest()  # noqa: SLF001 - as above
