"""One source that is driven by commands alone, and what its mirrors have to be.
Not here: the same by function calls, step by step (`world.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strata_cdc.cli.main import run
from strata_cdc.config.settings import load_settings
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from tests.mirrors.world import assert_rows

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from strata_cdc.config.settings import Settings
    from tests.mysql_server import MysqlServer


class Shop:
    """One source, driven by commands alone."""

    def __init__(self, server: MysqlServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.folder, self._monkeypatch = server, folder, monkeypatch
        monkeypatch.setenv("STRATA_SETTINGS", str(folder / "strata.toml"))
        monkeypatch.setenv("AIRFLOW_CONN_X", server.url)
        self.set()

    def set(self, more: str = "", tables: str = "shop.*", store: str | None = None, mirrors: str | None = None) -> None:
        store = f'store = "sqlite:///{self.folder}/s.db"' if store is None else store
        (self.folder / "strata.toml").write_text(
            f'lake = "{self.folder}/lake"\n{store}\n'
            f'[sources.shop]\nconnection = "x"\ntables = ["{tables}"]\nmirrors = ["{mirrors or tables}"]\n{more}\n'
        )

    @property
    def settings(self) -> Settings:
        return load_settings({"STRATA_SETTINGS": str(self.folder / "strata.toml"), "AIRFLOW_CONN_X": self.server.url})

    def waiting(self, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
        """The tables that are to be read again, as `strata status` has them."""
        capsys.readouterr()
        assert run(["status", "--json"]) == 0
        return list(json.loads(capsys.readouterr().out)["read_again"])

    def updated(self, capsys: pytest.CaptureFixture[str]) -> dict[str, str | None]:
        """Why each mirror of the database is not where it should be, as `strata mirror update` says it."""
        capsys.readouterr()
        assert run(["mirror", "update", "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line["table"].removeprefix("shop."): line["behind"] for line in lines}

    def listed(self, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
        """What `strata mirror list` says of each mirror of the database."""
        capsys.readouterr()
        assert run(["mirror", "list", "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line["table"].removeprefix("shop."): line for line in lines}

    def mirror(self, table: str) -> Mirror:
        found = Mirror.open(str(self.folder / "lake"), "shop", TableName("shop", table))
        assert found is not None, table
        return found

    def assert_equal(self, *tables: str) -> None:
        with self.server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
            for table in tables:
                mirror = self.mirror(table)
                with connection.cursor() as cursor:
                    cursor.execute(f"SELECT {', '.join(c.name for c in mirror.definition.columns)} FROM {table}")
                    assert_rows(mirror, cursor.fetchall())
