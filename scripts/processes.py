"""Long-running programs with pid files: start, find again, stop, whatever was killed in between.
Not here: which programs a fleet has and how they are called (`services.py`)."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import psutil

from strata_cdc.startup.spark import FLEET_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


_EXEC_SECONDS = 1
"""How long a living process may have no environment: a stranger that wrote its title over its own is waited for."""
_KILL_SECONDS = 10


class FleetError(Exception):
    """A component did not start or stop; the message ends with the tail of its log and its path."""


@dataclass(frozen=True, slots=True)
class Program:
    """One long-running program of a fleet: its name, also that of its log; its command; all variables it gets."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]

    def become(self) -> NoReturn:
        """Goes on as this program, in the foreground."""
        os.execvpe(self.command[0], list(self.command), dict(self.environment))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The processes that belong to one state folder.

    All of a component carry the path of its pid file in their environment, which children inherit, whatever sessions
    they open and whoever of them was killed.
    """

    state: Path

    def log(self, name: str) -> Path:
        """Where a component's output goes."""
        return self.state / "logs" / f"{name}.log"

    def start(self, program: Program) -> psutil.Process:
        """Starts a program in a session of its own, after what a killed predecessor left behind is gone."""
        self._kill(program.name)
        log, pid_file = self.log(program.name), self._pid_file(program.name)
        for folder in (log.parent, pid_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        # setproctitle, which Airflow's workers use, would write their titles over their environment.
        tags = {FLEET_VARIABLE: str(pid_file), "SPT_NOENV": "1"}
        with log.open("ab") as output:
            process = subprocess.Popen(
                program.command,
                env={**program.environment, **tags},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        # It outlives this process, and must not be missed when it is forgotten.
        process.returncode = 0
        pid_file.write_text(f"{process.pid}\n")
        return psutil.Process(process.pid)

    def running(self, name: str) -> psutil.Process | None:
        """The component's process as its pid file names it, or None when it is gone."""
        try:
            process = psutil.Process(int(self._pid_file(name).read_text()))
        except (OSError, ValueError, psutil.Error):
            return None
        # For an instant a process that becomes another program has no environment (Linux, from begin_new_exec to
        # create_elf_tables): Popen returns within it, and MySQL's programs of set-up are shell scripts that exec.
        for _ in deadline(_EXEC_SECONDS, pause=0.002):
            environment = _environment(process)
            if environment or not _lives(process):
                # Its number may be a stranger's by now.
                return process if self._is_tagged(name, environment) else None
        return None

    def members(self, name: str) -> list[psutil.Process]:
        """Every living process of a component, wherever its parents went."""
        return [process for process in psutil.process_iter() if self._is_tagged(name, _environment(process))]

    def stop(self, name: str, *, seconds: float) -> None:
        """Asks a component to stop, then ends whatever of it is left after `seconds`."""
        process = self.running(name)
        if process is not None:
            process.terminate()
            psutil.wait_procs([process], timeout=seconds)
        self._kill(name)
        self._pid_file(name).unlink(missing_ok=True)

    def failure(self, name: str, what: str) -> FleetError:
        """An error that shows the end of a component's log."""
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        return FleetError("\n".join([f"{name} {what}", *(f"  | {line}" for line in lines), f"  the whole log: {log}"]))

    def _is_tagged(self, name: str, environment: Mapping[str, str]) -> bool:
        return environment.get(FLEET_VARIABLE) == str(self._pid_file(name))

    def _kill(self, name: str) -> None:
        """Ends all of a component at once, and what was started meanwhile, too."""
        while doomed := self.members(name):
            for process in doomed:
                if process.is_running():
                    process.kill()
            # A dead one waits for the first process of the system to take note of it, in some containers a second.
            for _ in deadline(_KILL_SECONDS, pause=0.01):
                if not any(map(_lives, doomed)):
                    break

    def _pid_file(self, name: str) -> Path:
        return self.state / "run" / f"{name}.pid"


def _environment(process: psutil.Process) -> dict[str, str]:
    """The variables that a process began with; none if it is dead, or another user's."""
    try:
        return dict(process.environ())
    except (psutil.Error, OSError):
        return {}


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def deadline(seconds: float, pause: float = 0.25) -> Iterable[float]:
    """Yields at once and then after short pauses, until `seconds` have passed: the loop body is one try."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        yield end - now
        time.sleep(pause)
