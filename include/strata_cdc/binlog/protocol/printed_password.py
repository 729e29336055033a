"""Passwords that a command prints, anew for each connection: tokens of a cloud's identity service.
Not here: connections (`connection.py`)."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import PurePath
from typing import Final

from strata_cdc.errors import SettingsError

_SECONDS: Final = 60.0
"""As long as a server may take to let a user in."""
_REMEDY: Final = "Run the command by hand, as the user and in the environment of this process."


def printed_password(command: str, **about: str) -> bytes:
    """What a command prints, without the end of its line.

    Args:
        command: The program and its arguments.
        about: What the command finds in its environment, each as `STRATA_NAME`: tokens are for one host and one user.

    No shell reads the command; its words are split as a shell does it. Neither its words, which may hold a secret, nor
    what it prints is in a message.

    Raises:
        SettingsError: It does not exist, fails, prints nothing, or has not ended after a minute.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        raise SettingsError("password_command has a quote without an end") from None
    if not words:
        raise SettingsError("password_command is empty")
    program = f"password_command ({PurePath(words[0]).name})"
    try:
        environment = {**os.environ, **{f"STRATA_{name.upper()}": text for name, text in about.items()}}
        done = subprocess.run(words, capture_output=True, check=False, timeout=_SECONDS, env=environment)  # noqa: S603  the settings' own
    except OSError as error:
        raise SettingsError(f"{program} cannot be run: {error.strerror}", remedy=_REMEDY) from None
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{program} has not ended after {_SECONDS:.0f} s", remedy=_REMEDY) from None
    password = done.stdout.removesuffix(b"\n").removesuffix(b"\r")
    if done.returncode or not password:
        what = f"ended with {done.returncode}" if done.returncode else "printed nothing"
        raise SettingsError(f"{program} {what}", remedy=_REMEDY)
    return password
