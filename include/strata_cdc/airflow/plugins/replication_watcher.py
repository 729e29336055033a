"""The replication watcher: an Airflow event trigger that fires for each DDL in the stream of a live server.
Not here: following and reading the stream (`strata_cdc.tracking.watch.watch_ddl`), who listens
(`airflow/watch_schemas.py`)."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from strata_cdc.airflow.older import AirflowNotFoundException, SharedStreamProducer, connection_uri
from strata_cdc.airflow.plugins.stored_events import stored_payloads
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import StrataError, Transient
from strata_cdc.tracking.watch.notices import read_notice
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Sequence

    from airflow.triggers.shared_stream import AdvanceItem

    from strata_cdc.config.settings import Settings

_log = logging.getLogger(__name__)

AIRFLOW_CONNECTION = "airflow_strata"
"""Connection to Airflow's own API. Without it, a triggerer that was killed sends events again that Airflow has
already stored."""
MOST_UNCONFIRMED = 200
"""Airflow drops a listener that is 1,024 events late; a watch that starts again after weeks may have more at once."""
_AGAIN_SECONDS = 2.0
"""Pause after a connection broke."""
_FIXED_SECONDS = 30.0
"""Pause after an error that a person has to fix."""


class ReplicationWatcher(BaseEventTrigger):
    """Fires for each DDL of one source; its only argument is the source's name, everything else is in the settings."""

    def __init__(self, source: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.source = source

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow keeps in its database."""
        return "strata_cdc.airflow.plugins.replication_watcher.ReplicationWatcher", {"source": self.source}

    def shared_stream_key(self) -> Hashable:
        """One connection for each source; with it, Airflow reports which events it has stored."""
        return ("strata", self.source)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """The producer that follows the server."""
        return DdlStream(kwargs["source"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Each notice is an event."""
        async for notice in shared_stream:
            yield TriggerEvent(notice)  # type: ignore[no-untyped-call]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same without reports of stored events: an event is confirmed when the next event is requested."""
        stream = DdlStream(self.source)
        try:
            async for notice, noticed in stream.open_stream():
                yield TriggerEvent(notice)  # type: ignore[no-untyped-call]
                await stream.confirm([noticed])
        finally:
            await stream.aclose()


class DdlStream(SharedStreamProducer):
    """Sends notices to the triggerer; an event is confirmed once Airflow has stored it."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._watch: Any = None
        self._stored: frozenset[str] = frozenset()
        """Ids of the newest events that Airflow had stored before this watch: never more than these were
        unconfirmed."""
        self._unconfirmed = 0
        # The watch blocks while it waits for the server, and must be used by one thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"watch-{source}")

    async def open_stream(self) -> AsyncIterator[tuple[dict[str, Any], Any]]:
        """The notices as JSON and as objects; after an error, which is logged, it tries again, without a limit."""
        while True:
            try:
                if self._watch is None:
                    self._watch = await self._open()
                notices = await self._call(self._watch.next)
            except StrataError as error:
                _log.warning("source %s is not watched at the moment: %s", self._source, error)
                await asyncio.sleep(_AGAIN_SECONDS if isinstance(error, Transient) else _FIXED_SECONDS)
                continue
            for noticed in notices:
                was_stored = noticed.notice.id in self._stored
                # A stored notice is confirmed in order: when no notice before it is unconfirmed.
                while self._unconfirmed >= (1 if was_stored else MOST_UNCONFIRMED):
                    await asyncio.sleep(0.1)
                self._unconfirmed += 1
                if was_stored:
                    await self.confirm([noticed])
                else:
                    yield to_plain(noticed.notice), noticed

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Confirms what Airflow has stored.

        Raises:
            RuntimeError: An event was not stored; the trigger starts again and sends it again.
        """
        stored: list[Any] = []
        for item in batch:
            if not item.outcome.is_clean:
                await self.confirm(stored)
                raise RuntimeError(f"Airflow did not store an event of source {self._source}; it is sent again")
            stored.append(item.broker_payload)
        await self.confirm(stored)

    async def confirm(self, stored: Sequence[Any]) -> None:
        """Confirms notices: they are not sent again."""
        for noticed in stored:
            await self._call(self._watch.confirm, noticed)
            self._unconfirmed -= 1

    async def aclose(self) -> None:
        """Ends the connection."""
        if self._watch is not None:
            await self._call(self._watch.close)
        self._thread.shutdown(wait=False)

    async def _open(self) -> Any:
        settings = await _settings(self._source)
        url = await _connection_url(AIRFLOW_CONNECTION)
        if url is not None:
            stored = await self._call(stored_payloads, url, f"strata://{self._source}/ddl", MOST_UNCONFIRMED)
            self._stored = frozenset(read_notice(payload).id for payload in stored)
        return await self._call(lambda: _watch_class().open(self._source, settings))

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def _watch_class() -> Any:
    """Imported by the thread of a watch that runs: every process of Airflow loads the plugins."""
    return importlib.import_module("strata_cdc.tracking.watch.watch_ddl").DdlWatch


async def _settings(source: str) -> Settings:
    """The settings, with the connections of one source from Airflow: a triggerer can read connections only this way."""
    watched = load_settings(os.environ).sources.get(source)
    names = [name for name in (watched.connection, watched.store_connection) if name] if watched else []
    urls = {name: await _connection_url(name) for name in names}
    return load_settings(os.environ, urls.get)


async def _connection_url(name: str) -> str | None:
    try:
        connection = await Connection.async_get(name)
    except AirflowNotFoundException:
        return None
    return await connection_uri(connection)
