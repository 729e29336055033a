"""The decorators that make a function a kernel: machine code from the linked library, else from the compiler.
Not here: kernels. A kernel takes only numbers and arrays, checks each bound first, allocates nothing, and returns a
code of `status.py`."""

from __future__ import annotations

import sys
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from strata_cdc.startup.linked import linked_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


class _WrittenKernel(NamedTuple):
    """A kernel as it is written, and the object that its module has instead."""

    function: Callable[..., Any]
    inline: bool
    shown: Callable[..., Any]


_written: list[_WrittenKernel] = []
_compiled: dict[str, Any] = {}
_lock = RLock()


def compile_now(name: str) -> Callable[..., Any]:
    """Compiles the kernel `file.name`, for arguments of other types than in the linked library."""
    with _lock:
        if name not in _compiled:
            _compile_written()
        return cast("Callable[..., Any]", _compiled[name])


_LINKED = linked_kernels(compile_now)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Machine code for a function.

    Kernels release the GIL. `NUMBA_DISABLE_JIT=1` leaves them plain Python, `NUMBA_BOUNDSCHECK=1` adds a check to each
    access; the tests run in all three modes. A global that a kernel reads becomes a constant in the machine
    code.
    """
    return _machine_code(function, inline=False)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that becomes a part of each kernel that calls it.

    A call passes seven words for each array, which costs more than the work of a small kernel.
    """
    return _machine_code(function, inline=True)


def _machine_code(function: Callable[P, R], *, inline: bool) -> Callable[P, R]:
    if _LINKED is None:
        from strata_cdc.binlog.kernels.compiler import compiled  # noqa: PLC0415 - Numba takes a third of a second and 80 MB

        return cast("Callable[P, R]", compiled(function, inline=inline))
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    shown = _LINKED.get(name) or _compiled_when_called(name)
    _written.append(_WrittenKernel(function, inline, shown))
    return shown


def _compiled_when_called(name: str) -> Callable[..., Any]:
    def shown(*arguments: Any) -> Any:
        return compile_now(name)(*arguments)

    return shown


def _compile_written() -> None:
    """Compiles every kernel so far, and lets them call each other: Numba can only call its own functions."""
    from strata_cdc.binlog.kernels.compiler import compiled  # noqa: PLC0415 - as above

    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith(f"{__package__}.")]
    while _written:
        function, inline, shown = _written.pop(0)
        code = compiled(function, inline=inline)
        _compiled[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = code
        for names in modules:
            for name in [name for name, value in names.items() if value is shown]:
                names[name] = code
