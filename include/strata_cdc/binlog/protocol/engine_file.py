"""The names of a binlog in MariaDB's storage engine (`binlog_storage_engine`), and what needs positions that it lacks.
Not here: the stream of such a server (`engine_binlog.py`)."""

from __future__ import annotations

from typing import Final

from strata_cdc.errors import SourceSettingsError
from strata_cdc.position.binlog_position import BinlogPosition

STORAGE_ENGINE: Final = "binlog_storage_engine"
"""The variable of a server; empty if its binlog lies in files."""
ENGINE_FILE: Final = "engine-binlog.000001"
"""The name under which the stream of such a server lands, from whichever server it continues."""
ENGINE_BEGIN: Final = BinlogPosition.from_offset(ENGINE_FILE, 4)
"""Where it begins."""
ENGINE_SUFFIX: Final = ".ibb"
"""Of a server's own files."""


def is_in_engine_file(position: BinlogPosition) -> bool:
    """Whether a position is one in the stream of such a server."""
    return position.file == ENGINE_FILE


def refuse_positions(what: str) -> SourceSettingsError:
    """The error if something needs the position of a server whose binlog has none."""
    return SourceSettingsError(
        f"the server keeps its binlog in its storage engine ({STORAGE_ENGINE}), which has no positions: {what}",
        remedy="docs/mariadb.md lists what can be done with such a server. In my.cnf under [mysqld], remove "
        f"{STORAGE_ENGINE} and restart the server, to have a binlog in files.",
    )
