"""Status codes that kernels return; their callers turn them into errors with file and offset.
Not here: messages, which need to know what was read (`binlog/bytes/frames.py`, `changes/`)."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
"""All of the range was read."""
FULL: Final = 1
"""The output is full; call again from where it stopped."""
TRUNCATED: Final = 2
"""The range ends inside the item."""
CORRUPT: Final = 3
"""A length or a value contradicts its context."""
BAD_CHECKSUM: Final = 4
"""The CRC32 differs from the stored CRC32."""
UNSUPPORTED: Final = 5
"""A type code or a form is not known."""
