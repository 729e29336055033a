"""State folders for tests that start servers as `make up` does. Not here: the servers (`mysql_server.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scripts.ports import free_port
from scripts.state import PORTS, STATE_VARIABLE, FleetState

if TYPE_CHECKING:
    from pathlib import Path


def make_state(folder: Path) -> FleetState:
    """The folder's state, whose servers have ports of their own from the first call on.

    By default a state takes the usual ports where they are free. Two tests that start at once would both find them
    free, and one would then speak with the other's server.
    """
    state = FleetState.from_environment({STATE_VARIABLE: str(folder)})
    ports = folder / "ports.json"
    if not ports.exists():
        ports.write_text(json.dumps({name: free_port() for name in PORTS}))
    return state
