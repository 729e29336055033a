"""What Strata keeps on one machine below its state folder: secrets, ports, settings.
Not here: the processes that use them (`services.py`)."""

from __future__ import annotations

import json
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.ports import free_port
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).resolve().parent.parent
FLAVOUR_VARIABLE = "STRATA_FLAVOUR"
"""Whose server the private one is: `mysql` (the default) or `mariadb`."""
STATE_VARIABLE = "STRATA_STATE"
"""Where all state lies; `.strata` in the repository by default."""
GUEST_DATABASE = "strata_demo_shop"
"""The shop's database on a user's server."""
PORTS = {"mysql": 33306, "airflow": 8080}
"""Preferred ports, used if they are free."""
_CHANGING = threading.RLock()
"""Held from reading the known values to writing new ones: two threads of one process start MySQL and Airflow."""


@dataclass(frozen=True, slots=True)
class FleetState:
    """The state folder."""

    folder: Path
    flavour: Vendor = Vendor.MYSQL
    """Of the private server."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> FleetState:
        """The folder that the environment names, made if need be."""
        folder = Path(environ.get(STATE_VARIABLE) or REPOSITORY / ".strata").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, Vendor(environ.get(FLAVOUR_VARIABLE) or Vendor.MYSQL))

    @property
    def server_folder(self) -> Path:
        """The private server's data; servers of two vendors cannot read each other's."""
        return self.folder / ("server" if self.flavour is Vendor.MYSQL else f"server-{self.flavour}")

    @property
    def lake(self) -> Path:
        """Where binlogs land and tables are published."""
        return self.folder / "lake"

    @property
    def airflow_home(self) -> Path:
        """Airflow's database, logs and passwords."""
        return self.folder / "airflow"

    @property
    def settings_file(self) -> Path:
        """The settings; written on first use, edits are kept."""
        path = self.folder / "settings.toml"
        if not path.exists():
            self.write_settings()
        return path

    def write_settings(self, *, guest: bool = False) -> None:
        """Writes the settings again, as `default_settings` has them."""
        write_whole(self.folder / "settings.toml", self.default_settings(guest=guest))

    def default_settings(self, *, guest: bool = False) -> str:
        """One source, the demo's shop; on a user's server as a guest, without the store there."""
        own = f'lake = "{self.lake}"\n\n[sources.shop]\nconnection = "mysql_shop"\n'
        if not guest:
            return own
        return f'{own}tables = ["{GUEST_DATABASE}.*"]\nstore = "sqlite:///{self.guest_store}"\n'

    @property
    def guest_store(self) -> Path:
        """Where versions are kept if the server is a user's server."""
        return self.folder / "store.db"

    def secret(self, name: str) -> str:
        """A password or key of this machine, made on first use and readable by its owner only."""
        path = self.folder / "secrets.json"
        with _CHANGING:
            known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
            if name not in known:
                # URL-safe, and 44 characters with the padding: what a Fernet key must look like, and good as a
                # password.
                known[name] = secrets.token_urlsafe(32) + "="
                write_whole(path, json.dumps(known, indent=1) + "\n", mode=0o600)
            return known[name]

    def port(self, name: str) -> int:
        """The port of a service, chosen now if it has none."""
        with _CHANGING:
            return self._ports().get(name) or self.choose_port(name)

    def choose_port(self, name: str) -> int:
        """Looks for a free port for a service that is about to start: its last one, its usual one, any."""
        with _CHANGING:
            known = self._ports()
            known[name] = free_port(known.get(name, PORTS[name]))
            write_whole(self.folder / "ports.json", json.dumps(known) + "\n")
            return known[name]

    def _ports(self) -> dict[str, int]:
        path = self.folder / "ports.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}


def write_whole(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Writes a file completely or not at all, with its rights set before its content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
    temporary.replace(path)
