"""Words that say less than they seem to: each has a plainer one, and none comes back where it is gone.

A word gets a line when the documents and all packages are free of it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / "include" / "strata_cdc"
WORDS = {
    "in front of": "before",
    "behind": "after; late; what is meant",
    "room, rooms": "package; space",
    "seam, seams": "handover",
    "stretch, stretches": "batch, range",
    "piece, pieces": "part, range, chunk",
    "in the place of, in place of": "instead of",
    "life, lives": "lifetime, version range",
    "era, eras": "lifetime, version range",
    "stood": "was blocked; was at",
    "left out": "excluded, skipped, not published",
    "owes": "has as pending",
    "said": "reported, returned; summary",
    "told": "called with, informed, reported",
    "asked for": "requested",
    "mend, mends, mended": "fix",
    "tracked ahead, ahead of the store": "untracked",
    "image chain, chain of images": "before/after consistency",
    "unsaid": "without a report",
    "whoever": "the code, person or program that is meant",
    "lets nobody": "refuses, fails if",
    "happening, happenings": "schema event",
}
PATTERNS = {
    entry: re.compile(rf"\b({'|'.join(map(re.escape, entry.split(', ')))})\b", re.IGNORECASE) for entry in WORDS
}
DOCUMENTS = sorted((REPOSITORY / "docs").glob("*.md"))
FOLDERS = sorted(folder.name for folder in PACKAGES.iterdir() if any(folder.glob("*.py")))


def prose_of_document(text: str) -> str:
    """The sentences of a page: without its code, its samples and the addresses of its links."""
    for no_prose in (r"(?ms)^ *```.*?^ *```$", r"(?m)^ {4}.*$", r"`[^`]*`", r"(?<=\])\([^)]*\)"):
        text = re.sub(no_prose, "", text)
    return text


def prose_of_module(source: str) -> str:
    """The docstrings and comments of a module, without the names in them."""
    nodes = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return re.sub(r"`[^`]*`", "", "\n".join(texts))


def prose_of_package(folder: str) -> Iterator[tuple[str, str]]:
    """The path of each module, and its prose: docstrings, comments and messages."""
    for path in sorted((PACKAGES / folder).rglob("*.py")):
        source = path.read_text()
        yield str(path.relative_to(REPOSITORY)), f"{prose_of_module(source)}\n{messages_of_module(source)}"


def messages_of_module(source: str) -> str:
    """The sentences of a module that people read on a screen: its strings with a blank that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )
    return re.sub(r"`[^`]*`", "", "\n".join(text for text in texts if " " in text))


def words_in(prose: str) -> Counter[str]:
    """How often each word is there; a line break may lie within it."""
    prose = " ".join(prose.split())
    return Counter({word: len(found) for word, pattern in PATTERNS.items() if (found := pattern.findall(prose))})


def explained(found: dict[str, Counter[str]]) -> str:
    lines = (f"{path}: {word!r}: write {WORDS[word]!r}" for path, words in found.items() for word in words)
    return "\n" + "\n".join(lines)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents(document: Path) -> None:
    found = words_in(prose_of_document(document.read_text()))
    assert not found, explained({document.name: found})


@pytest.mark.parametrize("folder", FOLDERS)
def test_packages(folder: str) -> None:
    found = {path: words for path, prose in prose_of_package(folder) if (words := words_in(prose))}
    assert not found, explained(found)


@pytest.mark.parametrize("entry", WORDS)
def test_each_word_is_found_where_people_read_it(entry: str) -> None:
    for word in entry.split(", "):
        module = f'"""A head\n{word}."""\n\n\ndef f():\n    """Does it, {word.title()}."""\n    return 1  # {word}\n'
        assert words_in(prose_of_module(module)) == Counter({entry: 3})
        assert words_in(messages_of_module(f'"""Not this: {word}."""\nprint("It is {word}.")\n')) == Counter({entry: 1})
        assert words_in(prose_of_document(f"A sentence, {word.replace(' ', chr(10))}.\n")) == Counter({entry: 1})


@pytest.mark.parametrize("entry", WORDS)
def test_names_and_samples_are_no_prose(entry: str) -> None:
    for word in entry.split(", "):
        assert not words_in(prose_of_module(f'"""Of `{word}`."""\n{word.replace(" ", "_")} = "{word}"\n'))
        assert not words_in(prose_of_document(f"`{word}` [x]({word})\n\n    {word}\n\n```sh\n{word}\n```\n"))


NAMELESS = ("one", "found")
"""Say that there is one, or that it was found: a variable has the noun of what it is. A field may be called so: what a
check found."""


def nameless_variables(source: str) -> list[tuple[str, int]]:
    """The parameters and variables of a module that are called so, each with its line."""
    tree = ast.parse(source)
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {id(part.target) for node in classes for part in node.body if isinstance(part, ast.AnnAssign)}
    nodes = [node for node in ast.walk(tree) if id(node) not in fields]
    variables = [(node.id, node.lineno) for node in nodes if isinstance(node, ast.Name)]
    variables += [(node.arg, node.lineno) for node in nodes if isinstance(node, ast.arg)]
    return [variable for variable in variables if variable[0] in NAMELESS]


@pytest.mark.parametrize("folder", FOLDERS)
def test_variables_have_the_noun_of_what_they_are(folder: str) -> None:
    paths = sorted((PACKAGES / folder).rglob("*.py"))
    assert not {path.name: names for path in paths if (names := nameless_variables(path.read_text()))}


def test_each_kind_of_variable_is_seen() -> None:
    for name in NAMELESS:
        for module in (f"def f({name}): ...", f"{name} = 1", f"x = [y for {name} in z]", f"x = lambda {name}: 1"):
            assert nameless_variables(module)[0] == (name, 1)
        assert not nameless_variables(f"class A:\n    {name}: int\n\nx.{name} = {{'{name}': 1}}\n")


VAGUE_METHODS = ("read", "take", "of")
"""Say nothing that can be searched for: a method says what it reads (`read_events`) or from what it makes an object
(`from_spans`)."""
GIVEN_METHODS = {
    "Token.of": "docs/tokens.md",
    "Shapes.of": "its other way is Shapes.read",
    "Shapes.read": "docs/caches.md",
    "Cache.read": "docs/caches.md",
    "CompressedSocket.read": "what PyMySQL calls",
    "ChangesReader.read": "what Spark calls",
}
"""Methods that others call by such a name, and who says so."""


def vague_methods(source: str) -> list[str]:
    """Methods of a module's classes with such a name, properties aside."""
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return [
        f"{node.name}.{method.name}"
        for node in classes
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name in VAGUE_METHODS
        if "property" not in map(ast.unparse, method.decorator_list)
    ]


def test_a_method_says_what_it_reads_or_takes() -> None:
    methods = [name for path in PACKAGES.rglob("*.py") for name in vague_methods(path.read_text())]
    assert sorted(methods) == sorted(GIVEN_METHODS)


def test_a_vague_method_is_seen() -> None:
    lines = ("class A:", "    def read(self): ...", "    @property", "    def take(self): ...", "def of(): ...")
    assert vague_methods("\n".join(lines)) == ["A.read"]


VERBS = {
    "said": "summary, reason, outcome, message",
    "told": "reported",
    "asked": "requested, queried",
    "mend": "remedy",
    "life": "lifetime",
    "lives": "lifetimes",
    "era": "span, version",
    "stretch": "range",
    "happening": "event",
}
"""Words that no name of the code has, each with nouns that it may have instead."""
CALENDAR = ("binlog/kernels/number_texts.py", "binlog/kernels/temporal.py")
"""There an era is what the calendar calls so: 400 years."""


def names_in(source: str) -> Iterator[str]:
    """The names that a module uses or makes."""
    for node in ast.walk(ast.parse(source)):
        for kind, field in ((ast.Name, "id"), (ast.Attribute, "attr"), (ast.arg, "arg"), (ast.keyword, "arg")):
            if isinstance(node, kind) and getattr(node, field):
                yield getattr(node, field)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def verbs_in(source: str) -> set[str]:
    """The names that have such a word as a part."""
    return {
        name
        for name in names_in(source)
        if set(re.findall("[a-z]+", re.sub("([A-Z])", r"_\1", name).lower())) & {*VERBS}
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_nouns(folder: str) -> None:
    paths = [path for path in sorted((PACKAGES / folder).rglob("*.py")) if not str(path).endswith(CALENDAR)]
    assert not {path.name: names for path in paths if (names := verbs_in(path.read_text()))}


@pytest.mark.parametrize("word", VERBS)
def test_each_verb_is_seen(word: str) -> None:
    for line in (f"def f(x_{word}): ...", f"{word} = 1", f"a._{word}", f"f({word}=1)", f"class {word.title()}Of: ..."):
        assert len(verbs_in(line)) == 1
    assert not verbs_in(f"a = '{word}'; {word}s_of = 1; be{word} = 2")
