"""Errors keep their facts on every way they travel."""

from __future__ import annotations

import pickle

import pytest

from strata_cdc import errors
from strata_cdc.errors import BadData, DdlError, Permanent, SchemaGapError, StrataError, Transient, Usage
from strata_cdc.values import to_plain

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StrataError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_survives_the_way_between_processes(kind):
    error = kind("what", remedy="do", source="s", table="d.t", gtid="u:1", file="binlog.000001", offset=0)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert again.facts() == error.facts()
    assert str(again) == str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_says_whether_a_retry_may_help_and_how_to_exit(kind):
    if kind is not StrataError:
        assert sum(issubclass(kind, family) for family in (BadData, Usage, Permanent, Transient)) == 1
    assert kind.exit_code in (1, 2, 3)


def test_only_known_coordinates_are_told():
    error = BadData("the event ends early", offset=0)
    assert to_plain(error.facts()) == {"error": "BadData", "message": "the event ends early", "offset": 0}
    assert str(error) == "the event ends early (@ 0)."


def test_a_room_above_adds_what_it_knows_and_overrides_nothing():
    error = SchemaGapError("no schema", table="d.t").located(table="x.y", file="binlog.000007", offset=4)
    assert (error.table, error.file, error.offset) == ("d.t", "binlog.000007", 4)
    assert str(error) == "no schema (table d.t, binlog.000007 @ 4)."


def test_the_statement_at_fault_travels_along():
    error = DdlError("not understood", ddl="ALTER TABLE t FROB", offset=12)
    assert pickle.loads(pickle.dumps(error)).ddl == "ALTER TABLE t FROB"
    assert error.facts().offset == 12
