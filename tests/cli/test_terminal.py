"""What people see on a terminal has all that a text says, and nothing of it steers the terminal."""

from __future__ import annotations

from io import StringIO

from rich.table import Table

from strata_cdc.cli.terminal import Terminal

REASON = "set `output-old-value = true` under [sink.csv] of `größe`.`[a]`"


def printed(content: object, **options: bool) -> str:
    file = StringIO()
    Terminal(file=file, **options).print(content)
    return file.getvalue()


def test_brackets_are_no_markup() -> None:
    table = Table()
    table.add_row(REASON)
    assert REASON in printed(table)
    assert REASON in printed(REASON)


def test_markup_where_it_is_meant() -> None:
    assert printed("[bold]shop[/bold]", markup=True) == "shop\n"


def test_a_tag_of_a_gtid_is_no_emoji() -> None:
    executed = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:fire:1"
    table = Table()
    table.add_row(executed)
    for options in ({}, {"markup": True}):
        assert executed in printed(table, **options)
        assert executed in printed(executed, **options)


def test_control_characters_are_written_out() -> None:
    assert "\x1b" not in printed("a\x1b[31mb")
