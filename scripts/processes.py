"""Long-running programs with pid files: start, find again, stop, whatever was killed in between.
Not here: which programs a fleet has and how they are called (`services.py`)."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

# A component that is killed leaves children that no pid file names. They are found by their session, which is the
# component's own, or by these variables, which children inherit: some open a session of their own, others overwrite
# their environment with a title (Airflow's workers do, through setproctitle).
FLEET_VARIABLE = "STRATA_FLEET"
COMPONENT_VARIABLE = "STRATA_FLEET_COMPONENT"


class FleetError(Exception):
    """A component did not start or stop; the message ends with the tail of its log and its path."""


@dataclass(frozen=True, slots=True)
class Program:
    """One long-running program of a fleet.

    Args:
        name: Also the name of its pid file and its log.
        command: Program and arguments.
        environment: All variables it gets.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The processes that belong to one state folder.

    Args:
        state: The folder; its path is the fleet's identity.
    """

    state: Path

    def log(self, name: str) -> Path:
        """Where a component's output goes."""
        return self.state / "logs" / f"{name}.log"

    def start(self, program: Program) -> psutil.Process:
        """Starts a program in a session of its own, after what a killed predecessor left behind is gone."""
        self.kill(self.members(program.name))
        log = self.log(program.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        tags = {FLEET_VARIABLE: str(self.state), COMPONENT_VARIABLE: program.name}
        # Not subprocess: its objects complain when they are forgotten, and these programs outlive this one.
        pid = os.posix_spawnp(
            program.command[0],
            list(program.command),
            {**program.environment, **tags},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        started = psutil.Process(pid)
        pid_file = self._pid_file(program.name)
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        pid_file.write_text(f"{pid} {started.create_time()}\n")
        return started

    def running(self, name: str) -> psutil.Process | None:
        """The component's process as its pid file names it, or None when it is gone.

        A process id is used again by the system; together with its start time it is not.
        """
        pid, created = self._recorded(name)
        return _living(pid, created)

    def members(self, name: str) -> list[psutil.Process]:
        """Every living process of a component, wherever its parents went."""
        session, created = self._recorded(name)
        # A session keeps its number from being used again as long as it has members; with none, a stranger may have it.
        if psutil.pid_exists(session) and not _is_same(session, created):
            session = 0
        tags = {FLEET_VARIABLE: str(self.state), COMPONENT_VARIABLE: name}
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            if process.pid != os.getpid() and _belongs(process, session, created, tags):
                found |= {one.pid: one for one in (process, *_descendants(process))}
        return list(found.values())

    def stop(self, name: str, *, seconds: float) -> None:
        """Asks a component to stop, then ends whatever of it is left after `seconds`."""
        process = self.running(name)
        members = self.members(name)
        if process is not None:
            process.send_signal(signal.SIGTERM)
            psutil.wait_procs([process], timeout=seconds)
        self.kill({one.pid: one for one in (*members, *self.members(name))}.values())
        self._pid_file(name).unlink(missing_ok=True)

    def kill(self, processes: Iterable[psutil.Process]) -> None:
        """Ends processes at once, and waits until they are gone."""
        doomed = list(processes)
        for process in doomed:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(doomed, timeout=10)

    def failure(self, name: str, what: str) -> FleetError:
        """An error that shows the end of a component's log."""
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        return FleetError("\n".join([f"{name} {what}", *(f"  | {line}" for line in lines), f"  the whole log: {log}"]))

    def _pid_file(self, name: str) -> Path:
        return self.state / "run" / f"{name}.pid"

    def _recorded(self, name: str) -> tuple[int, float]:
        """Process id (which is also the session's) and start time of a component; zeros when there is no record."""
        try:
            pid, created = self._pid_file(name).read_text().split()
            return int(pid), float(created)
        except (OSError, ValueError):
            return 0, 0.0


def _is_same(pid: int, created: float) -> bool:
    """True when the process with this id is the one that was started then, a zombie included."""
    try:
        return bool(pid) and abs(psutil.Process(pid).create_time() - created) < 1
    except psutil.Error:
        return False


def _living(pid: int, created: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid) if _is_same(pid, created) else None
        return None if process is None or process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.Error:
        return None


def _belongs(process: psutil.Process, session: int, created: float, tags: Mapping[str, str]) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if session and os.getsid(process.pid) == session and process.create_time() >= created - 1:
            return True
        return bool(tags.items() <= process.environ().items())
    except (psutil.Error, OSError):
        return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def is_free(port: int) -> bool:
    """True when nobody listens on a TCP port of this machine's loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(preferred: int) -> int:
    """The preferred port when it is free, else any other."""
    if is_free(preferred):
        return preferred
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def deadline(seconds: float) -> Iterable[float]:
    """Yields at once and then after short pauses, until `seconds` have passed: the loop body is one try."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        yield end - now
        time.sleep(0.25)
