"""Numbers that take long are read beside the pages: nobody waits, and what was read last is shown with its age."""

from __future__ import annotations

import threading
import time

import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.numbers import Numbers

WAIT_SECONDS = 60


def read_until(kept, name, holds):
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds(found := kept.numbers_of([name]).get(name)):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


def test_a_page_waits_for_a_moment_only_and_finds_them_later():
    go, asked = threading.Event(), []

    def read(source):
        asked.append(source)
        assert go.wait(WAIT_SECONDS)
        return {"lag_seconds": 1.0}

    kept = Numbers(read)
    began = time.monotonic()
    assert kept.numbers_of(["a", "b"]) == {}
    assert kept.numbers_of(["a", "b"]) == {}
    # Whoever read them would still be waiting for `go`.
    assert time.monotonic() - began < WAIT_SECONDS / 2
    go.set()
    assert read_until(kept, "b", lambda found: found is not None).numbers == {"lag_seconds": 1.0}
    # One after the other, and none of them twice because it was asked for twice.
    assert asked == ["a", "b"]


def test_they_are_read_again_when_they_are_old_and_the_old_ones_are_shown_meanwhile():
    values = iter(range(1000))
    kept = Numbers(lambda _: {"lag_seconds": float(next(values))}, Limits(least_age_seconds=0.0, age_share=0))
    assert read_until(kept, "a", lambda found: found is not None and found.numbers["lag_seconds"] >= 3).age_seconds < 5


def test_what_cannot_be_read_is_said(monkeypatch):
    def read(source):
        raise LakeUnavailableError("the bucket does not answer", source=source)

    found = read_until(Numbers(read), "a", lambda found: found is not None)
    assert (found.numbers, found.error) == ({}, "the bucket does not answer")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_ours_does_not_end_it_for_ever():
    faults = iter([ZeroDivisionError("a fault")])

    def read(_):
        for fault in faults:
            raise fault
        return {"lag_seconds": 2.0}

    assert read_until(Numbers(read), "a", lambda found: found is not None).numbers == {"lag_seconds": 2.0}
    for thread in threading.enumerate():
        if thread.name == "strata-numbers":
            thread.join(WAIT_SECONDS)  # or it reports the fault in the middle of another test
