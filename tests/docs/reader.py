"""Somebody who types what a page says, in one shell, one Python and one SQL client, as it stands there.
Not here: which pages, on which server (`test_pages.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec.structs import replace

from strata_cdc.config.settings import SETTINGS_VARIABLE, load_settings
from tests.docs.pages import as_shown, steps

if TYPE_CHECKING:
    from tests.docs.pages import Block
    from tests.mysql_server import MysqlServer

BIN = Path(sys.executable).parent
REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 300
WIDTH = 100
"""Columns of the terminal of whoever wrote the page."""


@dataclass
class Reader:
    """What a block leaves behind is there for the next one: files, variables of the shell, names of Python."""

    folder: Path
    server: MysqlServer
    placeholders: dict[str, str]
    """What a page calls something that each reader has to fill in: an address, a password."""
    environment: dict[str, str]
    names: dict[str, Any] = field(default_factory=dict)

    def type(self, block: Block) -> None:
        """Does what the block says.

        Raises:
            AssertionError: It failed, or what came of it is not what the page shows.
        """
        text = block.text
        for name, value in self.placeholders.items():
            text = text.replace(name, value)
        does = {
            "sh": self._shell,
            "python": self._python,
            "sql": self._sql,
            "toml": self._settings,
            "yaml": lambda block: yaml.safe_load(block.text),
            "json": lambda block: json.loads(block.text),
        }
        does[block.language](replace(block, text=text))

    def run(self, command: str) -> str:
        """A command that has to succeed; returns what it printed."""
        code, printed = self._run(command)
        assert code == 0, f"{command}\n{printed}"
        return printed

    def _shell(self, block: Block) -> None:
        for step in steps(block):
            code, printed = self._run(step.command)
            where = f"{block}: {step.command}\nexit code {code}, and it printed:\n{printed}"
            if step.shown is None:
                assert code == 0, where
            else:
                assert as_shown(step.shown, printed), f"{where}\nthe page shows:\n{step.shown}"

    def _run(self, command: str) -> tuple[int, str]:
        kept = self.folder / "shell.env"
        # Whatever fails ends the block, not only what fails at its end; what it exported until then is kept.
        script = f"trap 'code=$?; export -p > {kept}; exit $code' EXIT; set -e\n{command}"
        done = subprocess.run(
            ["bash", "-c", f"set -a; . {kept} 2>/dev/null; set +a; {script}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def _python(self, block: Block) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(self.folder)
            for name, value in self._shell_variables().items():
                patched.setenv(name, value)
            exec(compile(block.text, str(block), "exec"), self.names)

    def _shell_variables(self) -> dict[str, str]:
        _, printed = self._run("env -0")
        return dict(one.split("=", 1) for one in printed.split("\0") if "=" in one)

    def _settings(self, block: Block) -> None:
        """A part of a file is put into one; nothing of what it says is done."""
        file = self.folder / "of_a_page.toml"
        text = block.text
        if "lake =" not in text:
            text = 'lake = "lake"\n' + text.replace("[sources.shop]", '[sources.shop]\nconnection = "mysql_shop"')
        file.write_text(text)
        load_settings({**self._shell_variables(), SETTINGS_VARIABLE: str(file)})

    def _sql(self, block: Block) -> None:
        self.server.run_sql(block.text)
