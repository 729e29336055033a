"""Possessive groups as atomic ones: the same matches, on a Python whose possessive groups cannot be trusted, too."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.schema.ddl import lexer, secrets
from strata_cdc.schema.ddl.possessive import _IS_SOUND, as_atomic

TEXTS = st.text("'\"`\\a1 .$@/*-#!\n=(,)xNb:", max_size=30)
PATTERNS = {
    "lexer": lexer._scanner.__wrapped__(0, 0, 1, "(?!)", "", "!").__self__,
    "secrets": secrets._ESCAPED,
    "secrets, plain": secrets._PLAIN,
}


@pytest.mark.parametrize(
    ("pattern", "atomic"),
    [
        ("(?:ab)*+", "(?>(?:ab)*)"),
        ("(?:a(?:b)++c){0,5}+d", "(?>(?:a(?>(?:b)+)c){0,5})d"),
        (r"[(]*+\(++[^])]++(a)?", r"[(]*+\(++[^])]++(a)?"),
        ("(?P<x>a)?+", "(?>(?P<x>a)?)"),
    ],
)
def test_only_groups_are_written_anew(pattern: str, atomic: str) -> None:
    assert as_atomic(pattern) == atomic


def test_an_attempt_that_fails_in_its_middle_takes_nothing() -> None:
    found = re.match(as_atomic("(?:'[^']*+')++"), "'a''")
    assert found is not None
    assert found[0] == "'a'"


@pytest.mark.skipif(not _IS_SOUND, reason="this Python's possessive groups are those that are not trusted")
@pytest.mark.parametrize("name", sorted(PATTERNS))
@given(text=TEXTS)
def test_both_find_the_same(name: str, text: str) -> None:
    pattern = PATTERNS[name]
    other = re.compile(as_atomic(pattern.pattern), pattern.flags)
    assert [one.span() for one in other.finditer(text)] == [one.span() for one in pattern.finditer(text)]
