"""What a run shows of a step that takes long."""

from __future__ import annotations

import pytest

from strata_cdc.cli.step_lines import StepLines, time_left


@pytest.mark.parametrize(
    ("seconds", "done", "of", "said"),
    [
        (60, 0, 10, ""),
        (4, 5, 10, ""),
        (60, 10, 10, ""),
        (60, 3, 0, ""),
        (6, 3, 4, ", about 2 seconds left"),
        (10, 9, 10, ", about 1 second left"),
        (60, 1, 2, ", about 60 seconds left"),
        (60, 1, 3, ", about 2 minutes left"),
        (3600, 1, 4, ", about 3 hours left"),
        (3600, 4, 7, ", about 45 minutes left"),
    ],
)
def test_the_time_that_is_left(seconds: float, done: int, of: int, said: str) -> None:
    assert time_left(seconds, done, of) == said


def test_a_long_step_says_how_far_it_is_and_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with StepLines(shown=True, clock=lambda: now[0]) as lines:
        lines.begin("decode")
        for slices, time in ((1, 8.0), (2, 20.0), (3, 21.0), (4, 40.0)):
            now[0] = time
            lines.decoded(slices, 32)
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "decode 2 of 32 slices, about 5 minutes left",
        "decode 4 of 32 slices, about 5 minutes left",
    ]


def test_a_statement_of_several_lines_stays_in_the_line_of_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    with StepLines(shown=True) as lines:
        lines.begin("check")
        lines.end("check", "1 warning: shop.t: `ALTER TABLE t\nTRUNCATE PARTITION p`: rows are gone")
    assert "`ALTER TABLE t TRUNCATE PARTITION p`: rows are gone" in capsys.readouterr().out
