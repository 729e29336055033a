"""What the docstrings name is there: modules, folders and parameters."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / "include" / "strata_cdc"
MODULES = sorted(PACKAGES.rglob("*.py"))
PATH = re.compile(r"`([\w./-]+(?:\.py|/))`")
NOT_OURS = {"_dv/": "a folder of each mirror", "pyspark/": "a library"}


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Those of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def missing_paths(source: str, folder: Path) -> list[str]:
    """The modules and folders that docstrings name, and that are neither in the module's folder nor in any above it."""
    above = [folder, *(parent for parent in folder.parents if parent.is_relative_to(REPOSITORY))]
    names = [name for text in docstrings(ast.parse(source)) for name in PATH.findall(text) if name not in NOT_OURS]
    return [name for name in names if not any((parent / name).exists() for parent in above)]


def described(docstring: str) -> list[str]:
    """The names in the section `Args:`."""
    section = re.search(r"^( *)Args:\n(\1 {4}\*{0,2}\w.*(?:\n+\1 {4}.*)*)", docstring, re.MULTILINE)
    return re.findall(rf"^{section[1]} {{4}}\*{{0,2}}(\w+):", section[2], re.MULTILINE) if section else []


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """The parameters of a function, or those with which an object of a class is made."""
    if isinstance(node, ast.ClassDef):
        made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        fields = {ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)}
        return fields.union(*map(parameters, made))
    return {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}


def unknown_parameters(source: str) -> list[tuple[str, str]]:
    """Functions and classes, each with what its docstring describes although it has no such parameter."""
    return [
        (node.name, name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for name in described(ast.get_docstring(node) or "")
        if name not in parameters(node)
    ]


def test_modules_and_folders_exist() -> None:
    missing = {str(path.relative_to(PACKAGES)): missing_paths(path.read_text(), path.parent) for path in MODULES}
    assert not {path: names for path, names in missing.items() if names}


def test_parameters_exist() -> None:
    unknown = {str(path.relative_to(PACKAGES)): unknown_parameters(path.read_text()) for path in MODULES}
    assert not {path: names for path, names in unknown.items() if names}


def test_what_is_missing_is_seen() -> None:
    module = '"""Not here: `layout.py`, `none.py`, `schema/ddl/`, `none/`, `_dv/`, `tests/layout/`, `a.b`."""\n'
    assert missing_paths(module, PACKAGES / "mirrors") == ["none.py", "none/"]
    lines = ('    """Does.', "", "    Args:", "        a: It.", "            more: of it.", "        c: That.")
    body = "\n".join([*lines, '    """'])
    assert unknown_parameters(f"def f(a, *, b):\n{body}\n") == [("f", "c")]
    assert unknown_parameters(f"class F:\n{body}\n    c: int\n") == [("F", "a")]
