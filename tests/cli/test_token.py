"""`strata token`: what it prints, and how it refuses."""

from __future__ import annotations

import json

import pytest

from strata.cli.main import run
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import GtidSet
from strata.gtid.token import FilePosition, Token
from strata.gtid.token_text import to_text

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
EARLY, LATE = (
    Token.of("shop", GtidSet.parse(f"{UUID}:1-{last}"), lineage="a", committed_at=1_795_231_800_000_000)
    for last in (7, 9)
)
REBUILT = Token.of("shop", GtidSet.parse(f"{UUID}:1-9"), lineage="b")
BILLS = Token.of("bills", FilePosition(UUID, BinlogPosition.of("binlog.000042", 1934)))


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]):
    def lines(*words: str, code: int = 0) -> list[str]:
        capsys.readouterr()
        assert run(["token", *words]) == code
        found = capsys.readouterr()
        return (found.err if code else found.out).splitlines()

    return lines


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [(EARLY, LATE, "before"), (LATE, EARLY, "after"), (LATE, LATE, "equal"), (LATE, REBUILT, "unknown")],
)
def test_compare(lines, one: Token, other: Token, order: str) -> None:
    assert lines("compare", to_text(one), to_text(other)) == [order]
    assert lines("compare", to_text(one), to_text(other), "--json") == [json.dumps({"order": order})]


def test_merge(lines) -> None:
    (text,) = lines("merge", *map(to_text, (EARLY, BILLS, LATE)))
    assert text == to_text(LATE | BILLS)
    assert json.loads(lines("merge", text, "--json")[0]) == {"token": text}
    (error,) = lines("merge", to_text(LATE), to_text(REBUILT), code=2)
    assert "two histories" in error
    assert "source shop" in error


def test_show(lines) -> None:
    found = [json.loads(line) for line in lines("show", to_text(BILLS | EARLY), "--json")]
    assert found == [
        {
            "source": "bills",
            "binlog_file": "binlog.000042",
            "binlog_pos": 1934,
            "server_uuid": UUID,
            "committed_at": None,
            "lineage": None,
        },
        {
            "source": "shop",
            "gtid_executed": f"{UUID}:1-7",
            "committed_at": "2026-11-21T03:30:00.000000Z",
            "lineage": "a",
        },
    ]
    assert lines("show", to_text(EARLY))[1].split() == ["gtid", "executed", f"{UUID}:1-7"]


def test_what_is_no_token_is_refused(lines) -> None:
    (error,) = lines("show", to_text(EARLY)[:-3], code=2)
    assert "is cut or damaged. Copy the whole of it again." in error
    (error,) = lines("compare", to_text(EARLY), "v9.AAAA", "--json", code=2)
    assert json.loads(error)["error"] == "InvalidTokenError"
