"""Processes of a fleet: found, stopped and started again whatever was killed in between."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

import psutil
import pytest

from scripts.ports import free_port
from scripts.processes import Fleet, Program

# Each waits for processes that must not end.
pytestmark = pytest.mark.slow

SLEEP = "import time; time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); {SLEEP}"
# What Airflow's workers do: the title overwrites the environment, and the tag in it.
TITLED = "import setproctitle, time; setproctitle.setproctitle('worker' * 2000); time.sleep(600)"
PARENT_OF_TITLED = (
    f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {TITLED!r}]); time.sleep(600)"
)
ESCAPED = (
    "import subprocess, sys, time; "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); time.sleep(600)"
)


@pytest.fixture
def fleet(tmp_path):
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.stop("one", seconds=5)


def program(code: str) -> Program:
    return Program("one", [sys.executable, "-c", code], dict(os.environ))


def wait_for_members(fleet: Fleet, count: int) -> list[psutil.Process]:
    for _ in range(100):
        members = fleet.members("one")
        if len(members) >= count:
            time.sleep(0.2)
            return fleet.members("one")
        time.sleep(0.05)
    raise AssertionError(f"{len(fleet.members('one'))} of {count} processes")


@pytest.mark.parametrize("code", [PARENT, PARENT_OF_TITLED, ESCAPED], ids=["child", "titled", "own-session"])
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "parent-killed"])
def test_no_child_outlives_a_stop(fleet, code, killed):
    parent = fleet.start(program(code))
    members = wait_for_members(fleet, 2)
    if killed:
        parent.kill()
        parent.wait(5)
        assert fleet.running("one") is None
    fleet.stop("one", seconds=5)
    assert not [process for process in members if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def test_what_runs_is_found_by_another_process(fleet):
    started = fleet.start(program(SLEEP))
    assert Fleet(fleet.state).running("one").pid == started.pid


def test_what_was_started_is_found_at_once(fleet):
    """Not one of them is taken for gone while the kernel still makes the program."""
    for _ in range(15):
        started = fleet.start(program(SLEEP))
        assert fleet.running("one") == started


def test_what_becomes_another_program_is_never_gone(fleet):
    """As the scripts do that start MySQL's programs; this process becomes itself some thousand times a second."""
    again = 'exec /bin/sh -c "$0" "$0"'
    fleet.start(Program("one", ["/bin/sh", "-c", again, again], dict(os.environ)))
    assert all(fleet.running("one") for _ in range(2000))


def test_a_start_ends_what_a_killed_predecessor_left(fleet):
    fleet.start(program(PARENT))
    old = wait_for_members(fleet, 2)
    os.kill(old[0].pid, signal.SIGKILL)
    fresh = fleet.start(program(SLEEP))
    assert [process.pid for process in fleet.members("one")] == [fresh.pid]


def test_a_pid_file_of_a_process_long_gone_is_no_process(fleet):
    fleet.start(program("pass")).wait(10)
    (fleet.state / "run" / "one.pid").write_text(f"{os.getpid()}\n")
    assert fleet.running("one") is None
    assert fleet.members("one") == []


def test_the_failure_shows_the_end_of_the_log_and_where_it_is(fleet):
    fleet.start(program("print('first'); print('the last words')")).wait(10)
    message = str(fleet.failure("one", "ended"))
    assert "the last words" in message
    assert str(fleet.log("one")) in message


def test_a_taken_port_is_not_chosen():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port
    assert free_port(port) == port
