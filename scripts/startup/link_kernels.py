"""Links the kernels that Python calls to one library, so that a command starts without Numba.

Numba takes a third of a second and 80 MB to be imported, and as long again to load its cache. The library has the same
machine code, a C function for each kernel and choice of types; beside it lies a Python module, made here, which calls
it over cffi's ABI mode and passes to the compiler what the library has no code for.

Not here: the kernels (`strata_cdc.binlog.kernels`), the loader of the library (`startup/linked.py`).
"""

from __future__ import annotations

import ast
import importlib
import io
import itertools
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cffi
import numpy as np
from llvmlite import binding as llvm
from numba import carray, cfunc, types

from scripts.startup.kernel_arguments import RECORDS, Argument, read_annotation
from scripts.startup.numba_caches import delete_unreadable
from strata_cdc.binlog.kernels import layout
from strata_cdc.startup.linked import NAME, library_paths
from strata_cdc.startup.processor import PORTABLE, processor_level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STRATA = Path(__file__).parents[2] / "include" / "strata_cdc"

_PROVIDED = ("memcpy", "memset", "memmove", "memcmp", "bcmp", "llvm.")
"""What machine code may call: the C library's functions, which every process has, and the compiler's own."""

_MATHEMATICS = ("llvm.pow", "llvm.exp", "llvm.log", "llvm.sin", "llvm.cos")
"""Of the compiler's own, those that become calls of libm, which not every process has."""

_NEVER_CALLED = ("NRT_MemInfo_call_dtor", "NRT_Free")
"""Ends of arrays that own memory. Those of kernels do not: they are views of the caller's."""

_NUMBA = {"char *": types.voidptr, "int64_t": types.int64}

_RESULTS = 4
"""Words for a kernel's results; before them, a word that Numba's calling convention writes to."""


_LLVM_CARRYLESS = "pclmul"
"""LLVM's name of `processor.CARRYLESS`."""


class NotLinkedError(Exception):
    """There is no library; the message says why."""


class LinkedKernel(NamedTuple):
    """A kernel that is called from Python."""

    module: str
    name: str
    kernel: Any

    @property
    def key(self) -> str:
        """The name in `linked_kernels`."""
        return f"{self.module}.{self.name}"


def find_entries() -> list[LinkedKernel]:
    """The kernels that other packages import, by their sources."""
    found: set[tuple[str, str]] = set()
    for path in STRATA.rglob("*.py"):
        if path.parent.name != "kernels":
            found |= set(_imports(ast.parse(path.read_text(encoding="utf-8"))))
    entries = []
    for module, name in sorted(found):
        kernel = getattr(importlib.import_module(f"strata_cdc.binlog.kernels.{module}"), name, None)
        if hasattr(kernel, "py_func"):
            entries.append(LinkedKernel(module, name, kernel))
    return entries


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "strata_cdc.binlog.kernels":
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("strata_cdc.binlog.kernels."):
            yield from (((node.module or "").rpartition(".")[2], alias.name) for alias in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


class LinkedFunction(NamedTuple):
    """One C function: a kernel with one choice of types."""

    entry: LinkedKernel
    symbol: str
    arguments: tuple[Argument, ...]
    returns: str
    """The annotation of its result."""

    @property
    def results(self) -> list[str]:
        """The words of its result."""
        count = 0 if self.returns == "None" else self.returns.count(",") + 1
        return [f"results[{k + 1}]" for k in range(count)]

    def declaration(self) -> str:
        """For cffi."""
        kinds = [kind for argument in self.arguments for kind in argument.c_types()]
        return f"int32_t {self.symbol}(int64_t *, int64_t *, {', '.join([*kinds, 'int64_t *'])});"

    def call(self, names: list[str]) -> str:
        """The branch of the Python function that calls it."""
        pairs = list(zip(self.arguments, names, strict=True))
        fits = " and ".join(test for argument, name in pairs for test in argument.fits(name)) or "True"
        words = ", ".join(word for argument, name in pairs for word in argument.handed(name))
        return f"""            if {fits}:
                results = words(WORDS)
                if C.{self.symbol}(results, results, {words}, results):
                    raise RuntimeError("the kernel {self.entry.key} failed")
                return {", ".join(self.results)}
"""


def compile_function(entry: LinkedKernel, number: int, arguments: tuple[Argument, ...]) -> tuple[LinkedFunction, Any]:
    """A C function and its LLVM module, in which nothing else is visible from outside."""
    annotation = entry.kernel.py_func.__annotations__["return"]
    symbol = f"{entry.module}_{entry.name}_{number}"
    function = LinkedFunction(entry, symbol, arguments, annotation)
    names = [f"a{k}" for k in range(len(arguments))]
    pairs = list(zip(arguments, names, strict=True))
    call = f"kernel({', '.join(argument.rebuilt(name) for argument, name in pairs)})"
    targets = ", ".join(function.results) or "_"
    parameters = [word for argument, name in pairs for word in argument.names(name)]
    source = f"""
def function({", ".join([*parameters, "words"])}):
    results = carray(words, ({_RESULTS},), int64)
    {targets} = {call}
"""
    scope = {**vars(layout), "carray": carray, "kernel": entry.kernel}
    scope |= {kind: vars(layout)[kind].kind for kind in RECORDS}
    scope |= {kind: getattr(np, kind) for kind in ("int8", "int16", "int32", "int64")}
    scope |= {kind: getattr(np, kind) for kind in ("uint8", "uint16", "uint32", "uint64")}
    exec(source, scope)
    words = [_NUMBA[kind] for argument in arguments for kind in argument.c_types()]
    made: Any = cfunc(types.void(*words, types.voidptr), nopython=True, error_model="numpy")(scope["function"])
    module = llvm.parse_assembly(made._library.get_llvm_str())  # noqa: SLF001 - Numba has no public way
    module.get_function(made._wrapper_name).name = f"unused_{symbol}"  # noqa: SLF001 - as above
    inner = module.get_function(made._wrapper_name.removeprefix("cfunc."))  # noqa: SLF001 - as above
    inner.name = symbol
    _hide_all_but(module, symbol)
    return function, module


def _hide_all_but(module: Any, symbol: str) -> None:
    """Drops what the function does not need; the same helpers come with each module."""
    for each in itertools.chain(module.functions, module.global_variables):
        if not each.is_declaration and each.name != symbol:
            each.linkage = "internal"
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    machine = llvm.Target.from_default_triple().create_target_machine()
    manager.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0)))


def link(functions: list[tuple[LinkedFunction, Any]], library: Path) -> None:
    """Writes the shared library.

    Raises:
        NotLinkedError: A kernel calls what only Numba has, as one that allocates does; or there is no linker.
        CalledProcessError: The linker failed.
    """
    stubs = "".join(
        f"define void @{name}(ptr %x) {{\n  call void @llvm.trap()\n  ret void\n}}\n" for name in _NEVER_CALLED
    )
    whole = llvm.parse_assembly(f"declare void @llvm.trap()\n{stubs}")
    for _, module in functions:
        whole.link_in(module)
    called = {each.name for each in whole.functions if each.is_declaration}
    foreign = {name for name in called if not name.startswith(_PROVIDED) or name.startswith(_MATHEMATICS)}
    if foreign:
        raise NotLinkedError(f"the kernels call {', '.join(sorted(foreign))}")
    is_portable = processor_level() == PORTABLE
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=PORTABLE if is_portable else llvm.get_host_cpu_name(),
        features=f"+{_LLVM_CARRYLESS}" if is_portable else llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="default",
    )
    linker = shutil.which("cc") or shutil.which("ld")
    if linker is None:
        raise NotLinkedError("there is no linker (cc or ld)")
    with tempfile.TemporaryDirectory() as folder:
        objects = Path(folder, "kernels.o")
        objects.write_bytes(machine.emit_object(whole))
        unfinished = library.with_name(f"{library.name}.{os.getpid()}")
        # Without the C library's start-up code the library asks for no version of it: any of the platform will do.
        plain = ["-nostdlib"] if linker.endswith("cc") else []
        subprocess.run([linker, "-shared", *plain, "-o", unfinished, objects], check=True)
        unfinished.replace(library)


_CALLER = '''"""Calls the library of kernels that lies beside this. Made by `scripts/startup/link_kernels.py`."""

import numpy as np

from strata_cdc.binlog.kernels import layout

uint8, uint16, uint32, uint64 = (np.dtype(kind) for kind in ("u1", "u2", "u4", "u8"))
int8, int16, int32, int64 = (np.dtype(kind) for kind in ("i1", "i2", "i4", "i8"))
RECORDS
'''

_OPEN = f"""

def open_library(path, compile_now):
    C, memory, words, WORDS = ffi.dlopen(path), ffi.from_buffer, ffi.new, "int64_t[{_RESULTS}]"
    kernels = {{}}
"""

_KERNEL = """
    def kernel({names}):
        try:
{calls}        except ValueError:
            pass  # an array whose elements do not lie side by side
        return compile_now({key!r})({names})

    kernels[{key!r}] = kernel
"""


def caller(functions: list[LinkedFunction]) -> str:
    """The Python module that calls the library."""
    ffi = cffi.FFI()
    ffi.cdef("\n".join(function.declaration() for function in functions))
    ffi.set_source(NAME, None)
    with tempfile.TemporaryDirectory() as folder:
        emitted = Path(folder, "ffi.py")
        with redirect_stdout(io.StringIO()):
            ffi.emit_python_code(str(emitted))
        text = emitted.read_text(encoding="utf-8")
    kinds = "".join(f"{kind} = layout.{kind}.kind\n" for kind in RECORDS)
    parts = [_CALLER.replace("RECORDS", kinds), text, _OPEN]
    for key, group in itertools.groupby(functions, lambda function: function.entry.key):
        choices = list(group)
        names = ", ".join(f"a{k}" for k in range(len(choices[0].arguments)))
        calls = "".join(choice.call(names.split(", ")) for choice in choices)
        parts.append(_KERNEL.format(key=key, names=names, calls=calls))
    parts.append("\n    return kernels\n")
    return "".join(parts)


def compile_entries() -> list[tuple[LinkedFunction, Any]]:
    """Every kernel that Python calls, for each choice of types."""
    functions = []
    for entry in find_entries():
        annotations = dict(entry.kernel.py_func.__annotations__)
        annotations.pop("return")
        choices = itertools.product(*(read_annotation(text) for text in annotations.values()))
        functions += [compile_function(entry, number, arguments) for number, arguments in enumerate(choices)]
    return functions


def main(arguments: Sequence[str]) -> int:
    """Makes the library and its caller; prints a message if it is not possible, because everything works without it.

    Args:
        arguments: `--missing` keeps what is there for these sources.
    """
    paths = library_paths()
    if paths is None:
        print("kernels are not linked: the processor's features cannot be read here; commands start a second later")
        return 0
    library, module = paths
    if "--missing" in arguments and library.exists() and module.exists():
        return 0
    for old in library.parent.rglob(f"{NAME}-*"):
        old.unlink()
    delete_unreadable(library.parent)
    functions = compile_entries()
    try:
        link(functions, library)
    except (NotLinkedError, subprocess.CalledProcessError) as error:
        print(f"kernels are not linked: {error}; commands start a second later")
        return 0
    # Completely or not at all, and last: its existence means that the library can be used.
    unfinished = module.with_name(f"{module.name}.{os.getpid()}")
    unfinished.write_text(caller([function for function, _ in functions]), encoding="utf-8")
    unfinished.replace(module)
    py_compile.compile(str(module), doraise=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
