"""A reader of a group in a process of its own, to be killed at any moment, and what it has written by then.
Not here: tests, and readers in threads (`test_group_stream.py`)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata_cdc.errors import SourceUnavailableError
from strata_cdc.groups.switchovers import read_journal
from tests.groups.world import Shards
from tests.mysql_server import MysqlServer
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class KilledReader:
    """Follows a group into a file. Begun again it goes on behind the last whole line there."""

    def __init__(self, folder: Path, out: str = "lines") -> None:
        self.folder, self.out = folder, folder / out
        self.out.touch()
        self._process: subprocess.Popen[bytes] | None = None
        self._read: tuple[Sequence[World], Sequence[World], Path | None] = ((), (), None)

    def start(self, sources: Sequence[World], former: Sequence[World] = (), journal: Path | None = None) -> None:
        """Begins, or goes on."""
        self._read = sources, former, journal
        whole = self.out.read_bytes()
        # What a kill has left of a line is no line.
        self.out.write_bytes(whole[: whole.rfind(b"\n") + 1])
        lines = self.lines()
        request = {
            "sources": [_described(world) for world in sources],
            "former": [_described(world) for world in former],
            "journal": str(journal) if journal else None,
            "start": lines[-1]["token"] if lines else "beginning",
            "out": str(self.out),
        }
        command = [sys.executable, "-m", "tests.groups.following", json.dumps(request)]
        with (self.folder / "reader.log").open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log)

    def kill(self) -> None:
        """At whatever it does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines that it has written."""
        return [json.loads(line) for line in self.out.read_bytes().split(b"\n")[:-1]]

    def go_on(self) -> int | None:
        """Begins again if a server did not answer when it began, as who runs the command does; returns how it has ended
        otherwise."""
        ended = None if self._process is None else self._process.poll()
        if ended != SourceUnavailableError.exit_code:
            return ended
        self.start(*self._read)
        return None

    def has(self, what: Callable[[dict[str, Any]], bool]) -> bool:
        """Whether a line is there; a reader that has ended is a fault."""
        assert self._process is not None
        ended = self.go_on()
        assert ended is None, (ended, (self.folder / "reader.log").read_text()[-3000:])
        return any(map(what, self.lines()))


def _described(world: World) -> tuple[str, int, str, str]:
    return world.name, world.server.port, str(world.server.folder), str(world.folder)


def _world(described: tuple[str, int, str, str]) -> World:
    name, port, server, folder = described
    return World(MysqlServer(Path(server), port, None), Path(folder), name)  # type: ignore[arg-type]  # not ours to end


def main(request: dict[str, Any]) -> None:
    """Writes lines until it is killed."""
    group = Shards(
        [_world(one) for one in request["sources"]],
        former=[_world(one) for one in request["former"]],
        journal=request["journal"],
    )
    with Path(request["out"]).open("ab", buffering=0) as out:
        switchovers = read_journal(group.journal) if group.journal else []
        try:
            out.writelines(group.stream(request["start"], follow=True, switchovers=switchovers).written())
        except SourceUnavailableError as error:
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
