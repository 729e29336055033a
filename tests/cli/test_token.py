"""`strata token`: what it prints, and how it refuses."""

from __future__ import annotations

import json

import pytest

from strata_cdc.cli.main import run
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.source_position import Origin
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from tests.position.former_texts import former_text

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
EARLY, LATE = (
    Token.of("shop", GtidSet.parse(f"{UUID}:1-{last}"), lineage="a", committed_at=1_795_231_800_000_000)
    for last in (7, 9)
)
REBUILT = Token.of("shop", GtidSet.parse(f"{UUID}:1-9"), lineage="b")
BILLS = Token.of("bills", FilePosition(UUID, BinlogPosition.from_offset("binlog.000042", 1934)))


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


def test_texts_of_former_versions(lines) -> None:
    """They are read, and what comes of them has the present form."""
    assert lines("compare", former_text(EARLY), to_text(LATE)) == ["before"]
    assert lines("compare", to_text(LATE), former_text(LATE)) == ["equal"]
    assert lines("merge", former_text(EARLY), to_text(BILLS), former_text(LATE)) == [to_text(LATE | BILLS)]
    assert lines("show", former_text(BILLS | EARLY)) == lines("show", to_text(BILLS | EARLY))


def test_merge(lines) -> None:
    (text,) = lines("merge", *map(to_text, (EARLY, BILLS, LATE)))
    assert text == to_text(LATE | BILLS)
    assert json.loads(lines("merge", text, "--json")[0]) == {"token": text}
    (error,) = lines("merge", to_text(LATE), to_text(REBUILT), code=2)
    assert "two histories" in error
    assert "source shop" in error


def test_without(lines) -> None:
    both = to_text(EARLY | BILLS)
    assert lines("without", both, "bills") == [to_text(EARLY)]
    assert lines("without", both, "shop", "--json") == [json.dumps({"token": to_text(BILLS)})]
    assert "the token does not name shard; it names bills, shop" in lines("without", both, "shard", code=2)[0]
    assert "names no other source" in lines("without", both, "shop", "bills", code=2)[0]


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


def test_show_what_was_copied(lines) -> None:
    copied = [Origin(source, GtidSet.parse(f"{UUID}:1-7"), lineage) for source, lineage in (("a", "first"), ("b", ""))]
    text = to_text(Token.of("shop", GtidSet.parse(f"{UUID}:1-9"), origins=copied))
    assert [line.split() for line in lines("show", text)[-2:]] == [
        ["copied", "a", f"{UUID}:1-7", "first"],
        ["b", f"{UUID}:1-7"],
    ]
    [printed] = map(json.loads, lines("show", text, "--json"))
    assert printed["copied"] == [
        {"source": "a", "gtid_executed": f"{UUID}:1-7", "lineage": "first"},
        {"source": "b", "gtid_executed": f"{UUID}:1-7", "lineage": None},
    ]


def test_a_bound_of_the_clocks_may_be_set_for_all(lines, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    late = to_text(Token.of("other", GtidSet.parse(f"{UUID}:1"), committed_at=1_795_231_900_000_000))
    both = to_text(EARLY), late
    monkeypatch.delenv("STRATA_SETTINGS", raising=False)
    assert lines("compare", *both) == ["unknown"]
    settings = tmp_path / "strata.toml"
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    text = 'lake = "l"\nclock_bound = "{}"\n[sources.other]\nconnection = "c"\n'
    for bound, order in (("5s", "before"), ("3m", "unknown")):
        settings.write_text(text.format(bound))
        assert lines("compare", *both) == [order]
    # Who says it now counts more, then the variable.
    monkeypatch.setenv("STRATA_CLOCK_BOUND", "5")
    assert lines("compare", *both) == ["before"]
    assert lines("compare", *both, "--clock-bound", "180") == ["unknown"]
    monkeypatch.delenv("STRATA_CLOCK_BOUND")
    settings.write_text(text.format("soon"))
    (error,) = lines("compare", *both, code=2)
    assert 'line 2: clock_bound is not a time, as in "500ms"' in error


@pytest.mark.parametrize("bound", ["nan", "inf", "-1", "soon"])
def test_a_bound_that_is_no_number_of_seconds_is_refused(lines, bound: str) -> None:
    (error,) = lines("compare", to_text(EARLY), to_text(LATE), "--clock-bound", bound, code=2)
    assert "bound" in error


def test_what_is_no_token_is_refused(lines) -> None:
    (error,) = lines("show", to_text(EARLY)[:-3], code=2)
    assert "is cut or damaged. Copy the whole of it again." in error
    (error,) = lines("compare", to_text(EARLY), "v9.AAAA", "--json", code=2)
    assert json.loads(error)["error"] == "InvalidTokenError"
