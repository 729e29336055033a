"""What the documents name is there, and no file grows beyond what one can read."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LINES = 700
"""What one can read in one go."""
MEDIAN_LINES = 130
PRODUCT = re.compile(r"(include|dags|plugins|scripts)/.*\.py")
BYTES = 64 * 1024
TRACKED = (
    subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    .stdout.decode()
    .split("\0")
)
FILES = [name for name in TRACKED if name and (REPOSITORY / name).is_file()]
DOCUMENTS = [name for name in FILES if name.endswith(".md")]
TOP = {name.split("/", 1)[0] for name in FILES if "/" in name}
LOCKS = re.compile(r"requirements.*\.txt|tests/(.+/)?(golden|cases)/.*|.*\.svg")
"""Written by programs, or recorded."""
GENERATED = re.compile(r"include/strata_cdc/schema/model/charsets/.*\.py")
"""Tables of the standard, not logic."""


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def test_every_path_that_a_document_names_exists():
    assert not {document: missing for document in DOCUMENTS if (missing := missing_paths(document))}


def missing_paths(document: str) -> set[str]:
    """The paths that a document names or links to, and that are not there."""
    text = (REPOSITORY / document).read_text()
    named = {path.rstrip("/.") for path in re.findall(r"`([\w.-]+(?:/[\w.*-]+)+/?)`", text)}
    mine = {path for path in named if path.split("/", 1)[0] in TOP}
    missing = {
        path for path in mine if not (any(REPOSITORY.glob(path)) or any((REPOSITORY / "include/strata_cdc").glob(path)))
    }
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    return missing | {link for link in links if link and not (REPOSITORY / document).parent.joinpath(link).exists()}


def test_every_make_target_that_a_document_names_exists():
    named = {
        (document, target)
        for document in DOCUMENTS
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", (REPOSITORY / document).read_text(), re.MULTILINE)
    }
    assert named
    known = targets()
    assert not {(document, target) for document, target in named if target not in known}


def test_make_help_lists_every_target():
    shown = subprocess.run(["make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^ {2}make ([a-z-]+)", shown, re.MULTILINE)) == targets()


def test_a_target_has_at_most_three_lines():
    for rule in re.split(r"\n(?=[a-z-]+:)", (REPOSITORY / "Makefile").read_text()):
        assert len([line for line in rule.splitlines() if line.startswith("\t")]) <= 3, rule


def test_no_file_is_longer_than_one_can_read():
    written = [
        name
        for name in FILES
        if name.endswith((".py", ".sh", ".sql", ".yaml")) and not (LOCKS.fullmatch(name) or GENERATED.fullmatch(name))
    ]
    assert len(written) > len(DOCUMENTS)
    lines = {name: len((REPOSITORY / name).read_text().splitlines()) for name in written}
    assert not {name: count for name, count in lines.items() if count > LINES}


def test_most_files_are_short():
    lines = [
        len((REPOSITORY / name).read_text().splitlines())
        for name in FILES
        if PRODUCT.fullmatch(name) and not name.endswith("__init__.py")
    ]
    assert statistics.median(lines) < MEDIAN_LINES


def test_no_large_file_is_committed():
    large = {name for name in FILES if (REPOSITORY / name).stat().st_size > BYTES and not LOCKS.fullmatch(name)}
    assert not large


def test_every_module_says_what_belongs_in_it():
    silent = set()
    for name in FILES:
        if name.endswith(".py") and not name.startswith("tests/") and not name.endswith("__init__.py"):
            text = (REPOSITORY / name).read_text()
            if not re.match(r'(#.*\n)*"""', text):
                silent.add(name)
    assert not silent


def types_of(module: str) -> list[str]:
    """The names of a module's classes, and of its aliases of several types; without the underscore of private ones."""
    body = ast.parse(module).body
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    unions = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)]
    targets = (
        ast.unparse(target) for node in unions if isinstance(node.value.op, ast.BitOr) for target in node.targets
    )
    return [bare for bare in (name.removeprefix("_") for name in [*classes, *targets]) if bare.upper() != bare]


def types_of_the_product() -> Counter[str]:
    modules = (REPOSITORY / name for name in FILES if PRODUCT.fullmatch(name))
    return Counter(name for module in modules for name in types_of(module.read_text()))


def test_no_two_types_have_one_name():
    assert not {name for name, count in types_of_the_product().items() if count > 1}


WITHOUT_NOUN = re.compile(
    r"[A-Z][a-z]{2,}ed|Again|Around|Chosen|Done|Given|Held|Kept|Known|Late|Left|Lost|Made|Newest|Recent|Same|Seen|Shown|"
    "Waiting|Whole|Written"
)


def test_a_type_has_the_noun_of_what_it_is():
    # MySQL's word, of `gtid_executed`.
    assert set(filter(WITHOUT_NOUN.fullmatch, types_of_the_product())) == {"Executed"}


def test_each_kind_of_type_is_seen():
    module = "class Ab: ...\nBa = (\n    Ab | None\n)\nclass _Cd: ...\nDe = 1\nEf = Ab\nFLAGS = 1 | 2\n"
    assert types_of(module) == ["Ab", "Cd", "Ba"]


def test_tests_replace_functions_in_one_place():
    """A limit is an argument, and a fault is interposed; the rest are another program's parts, and what starts it."""
    patched = re.compile(r"\b(?:monkeypatch|patched|patch)\.setattr\(([^,]+),")
    found = {
        (name.removeprefix("tests/"), what)
        for name in FILES
        if name.startswith("tests/") and name.endswith(".py")
        for what in patched.findall((REPOSITORY / name).read_text())
    }
    assert found == {
        ("interposed.py", "owner"),
        ("conftest.py", "tempfile"),
        ("spark/test_apart.py", "tempfile"),
        ("cli/test_run.py", '"os.fsync"'),
        ("dags/test_dags.py", "FormatChecker"),
        ("dags/test_data_docs.py", "security"),
        ("dags/test_freshness.py", "plugins_manager"),
        ("docs/shared_spark.py", "job"),
        ("docs/shared_spark.py", "session"),
    }
