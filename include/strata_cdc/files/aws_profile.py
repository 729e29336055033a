"""Keys that AWS's own tools have stored for a user: obstore reads the environment and asks the machine's own service,
but no files.
Not here: who uses them (`objects.py`)."""

from __future__ import annotations

import os
from configparser import ConfigParser, Error
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}


def stored_keys() -> Mapping[str, str]:
    """The keys of the profile that the environment names, in obstore's words; none if the environment has keys itself,
    or the profile has none."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    default = Path.home() / ".aws" / "credentials"
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or default)
    profiles = ConfigParser(interpolation=None)
    try:
        profiles.read(file)
    except (Error, OSError, UnicodeDecodeError):
        return {}
    name = os.environ.get("AWS_PROFILE") or "default"
    if not profiles.has_section(name):
        return {}
    return {ours: profiles[name][theirs] for theirs, ours in _NAMES.items() if profiles[name].get(theirs)}
