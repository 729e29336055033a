"""A web server that ends streams when it ends: uvicorn waits for answers, and a stream's never ends.
Not here: a stream's answer (`answer.py`), the command (`cli/serve.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket

    from strata_cdc.serve.streaming.answer import OpenStreams


class EndingServer(uvicorn.Server):
    """Each stream ends after a whole event, and its reader comes again with the last token."""

    def __init__(self, config: uvicorn.Config, streams: OpenStreams) -> None:
        """Needs what `add_streams` has returned."""
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, which waits for all answers up to a time, and then cancels what is left."""
        self._streams.end()
        await super().shutdown(sockets)
