"""Which columns an expression names, and what they are called after a RENAME."""

from __future__ import annotations

import pytest

from strata_cdc.schema.model.expressions import names_column, with_renamed


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("(`id` * 2)", "id"),
        ("ID*2", "id"),
        ("id*2", "ID"),
        ("(`É`)", "é"),
        ("a+`a``b`", "a`b"),
        ('a+"a""b"', 'a"b'),
        ("`x y`+1", "x y"),
        ("concat(`$a`,a$)", "$a"),
        ("`-`-`-`", "-"),
        ("x+y", "y"),
        ("/*!50000 a*/+1", "a"),
        ("`t`.`a`", "a"),
        ("(```a```)", "`a`"),
        ("(`a`)+(`b`)", "b"),
    ],
)
def test_a_name_is_a_word_of_its_own(expression: str, column: str) -> None:
    assert names_column(expression, column)


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("(`id` * 2)", "d"),
        ("ABS(a)", "s"),
        ("a1+a_b", "a"),
        ("a$", "a"),
        ("éa", "a"),
        ("`a``b`", "a"),
        ("`a``b`", "b"),
        ("", "a"),
    ],
)
def test_a_part_of_a_word_is_another_name(expression: str, column: str) -> None:
    assert not names_column(expression, column)


@pytest.mark.parametrize(
    ("expression", "renamed"),
    [
        ("concat(a,'a',`b`)", "concat(`x`,'a',`a`)"),
        ("A(a)", "A(`x`)"),
        ("cast(a as date)", "cast(`x` as date)"),
        ("`date`+1", "`day`+1"),
        ('"a"+a', '"a"+`x`'),
        ("'it''s a'+a", "'it''s a'+`x`"),
        (r"'\' a'+a", r"'\' a'+`x`"),
        ("@a+a", "@a+`x`"),
        ("`c d`+1", "`c``d`+1"),
        ("1a+a$+aa", "1a+a$+aa"),
    ],
)
def test_names_after_a_rename(expression: str, renamed: str) -> None:
    assert with_renamed(expression, {"a": "x", "b": "a", "date": "day", "c d": "c`d"}) == renamed
