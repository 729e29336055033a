"""The replication watcher: an Airflow event trigger that fires for each DDL in the stream of a live server.
Not here: following and reading the stream (`strata_cdc.tracking.watch.watch_ddl`), who listens
(`dags/watch_schemas.py`)."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import SharedStreamProducer

from plugins.stored_events import stored_payloads
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
"""Airflow's own API. Without it a triggerer that is killed gives events again that Airflow has stored already."""
MOST_UNCONFIRMED = 200
"""Airflow drops a listener that is 1,024 events behind; a watch that comes back after weeks may have more at once."""
_AGAIN_SECONDS = 2.0
"""After a connection that broke."""
_MENDED_SECONDS = 30.0
"""After an error that somebody has to mend."""


class ReplicationWatcher(BaseEventTrigger):
    """Fires for each DDL of one source; its only argument is the source's name, everything else is in the settings."""

    def __init__(self, source: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.source = source

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow keeps in its database."""
        return "plugins.replication_watcher.ReplicationWatcher", {"source": self.source}

    def shared_stream_key(self) -> Hashable:
        """One connection a source, and with it Airflow's word on which events it has stored."""
        return ("strata", self.source)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """What follows the server."""
        return DdlStream(kwargs["source"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Each notice is an event."""
        async for notice in shared_stream:
            yield TriggerEvent(notice)  # type: ignore[no-untyped-call]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same where nobody says which events are stored: an event is confirmed when the next one is asked for."""
        stream = DdlStream(self.source)
        try:
            async for notice, noticed in stream.open_stream():
                yield TriggerEvent(notice)  # type: ignore[no-untyped-call]
                await stream.confirm([noticed])
        finally:
            await stream.aclose()


class DdlStream(SharedStreamProducer):
    """Gives notices to the triggerer; the watch goes on from an event once Airflow has stored it."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._watch: Any = None
        self._stored: frozenset[str] = frozenset()
        """Ids of the newest events that Airflow had stored before this watch: more were never unconfirmed."""
        self._unconfirmed = 0
        # The watch waits for the server, and is for one thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"watch-{source}")

    async def open_stream(self) -> AsyncIterator[tuple[dict[str, Any], Any]]:
        """The notices as JSON and as they are; it goes on through errors, which are logged, for as long as it takes."""
        while True:
            try:
                if self._watch is None:
                    self._watch = await self._open()
                found = await self._call(self._watch.next)
            except StrataError as error:
                _log.warning("source %s is not watched just now: %s", self._source, error)
                await asyncio.sleep(_AGAIN_SECONDS if isinstance(error, Transient) else _MENDED_SECONDS)
                continue
            for noticed in found:
                was_stored = noticed.notice.id in self._stored
                # What was stored is confirmed in its turn: when nothing before it waits any more.
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
            RuntimeError: Something was not stored; the trigger starts anew and gives it again.
        """
        stored: list[Any] = []
        for item in batch:
            if not item.outcome.is_clean:
                await self.confirm(stored)
                raise RuntimeError(f"Airflow did not store an event of source {self._source}; it is given again")
            stored.append(item.broker_payload)
        await self.confirm(stored)

    async def confirm(self, stored: Sequence[Any]) -> None:
        """These notices are not given again."""
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
    """The settings, with the connections of one source from Airflow: the triggerer may ask for them only this way."""
    found = load_settings(os.environ).sources.get(source)
    names = [name for name in (found.connection, found.store_connection) if name] if found else []
    urls = {name: await _connection_url(name) for name in names}
    return load_settings(os.environ, urls.get)


async def _connection_url(name: str) -> str | None:
    try:
        connection = await Connection.async_get(name)
    except AirflowNotFoundException:
        return None
    return str(await connection.aget_uri())
