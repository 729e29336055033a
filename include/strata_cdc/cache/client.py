"""The client of a cache's server: of one Redis or Valkey, or of a cluster, of which it follows the cache's slot through
migrations and failovers.
Not here: what is sent, and faults as errors of ours (`server.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Node: TypeAlias = tuple[str, int]
"""Host and port."""
_MOST_HOPS: Final = 3
"""From node to node, for one command; nodes that disagree for longer are asked again later."""


class CacheClient:
    """Sends commands to the server that has the keys of one cache. Several threads may share it.

    It follows MOVED, and no ASK: while a slot migrates, the node that it goes to is none that an invalidator has caught
    up with.

    No lock is held while a server is asked, and a node that does not answer costs one answer's time: redis-py's own
    client of clusters (8.1, `NodesManager.initialize`) lets all threads wait for all nodes one after the other.
    """

    def __init__(self, redis: Any, url: str, timeout_seconds: float) -> None:
        """Nothing is opened yet.

        Args:
            redis: The module.
            url: Of the server, or of any node of a cluster.
            timeout_seconds: For each answer of a node.

        Raises:
            ValueError: The URL is not valid, or has an option that is none of a connection.
        """
        self._redis = redis
        first = redis.Redis.from_url(url, socket_timeout=timeout_seconds, socket_connect_timeout=timeout_seconds)
        # Scripts answer with bytes, whatever an URL that an application has for other purposes says.
        first.connection_pool.connection_kwargs["decode_responses"] = False
        self._options = dict(first.connection_pool.connection_kwargs)
        self._kind = first.connection_pool.connection_class
        try:
            self._kind(**self._options)  # which opens nothing
        except TypeError:
            raise ValueError from None
        host = "" if "path" in self._options else "localhost"
        self._first: Node = (self._options.pop("host", host), self._options.pop("port", 6379))
        """As the URL names it; without a host it is a socket, and leads to no other node."""
        self._at = self._first
        self._nodes: list[Node] | None = None
        """Those of the cluster, or the server alone; None before the first answer."""
        self._clients: dict[Node, Any] = {self._first: first}

    def close(self) -> None:
        """Closes all connections."""
        for client in list(self._clients.values()):
            client.close()

    def node(self) -> Node:
        """Where the last command was answered."""
        return self._at

    def run(self, words: Sequence[Any]) -> Any:
        """Runs a command whose keys are the cache's. Raises what redis-py raises."""
        errors = self._redis.exceptions
        try:
            if self._nodes is None:
                self._learn(self._at)
            return self._answer(self._at, words)
        except (errors.ConnectionError, errors.TimeoutError, errors.ClusterDownError):
            # Another node knows who has the slot now, if this one is gone, or cut off from the others.
            self._go_on()
            raise

    def run_at(self, node: Node, words: Sequence[Any]) -> Any:
        """Runs a command that names no key on a node. Raises what redis-py raises."""
        return self._client(node).execute_command(*words)

    def _answer(self, at: Node, words: Sequence[Any]) -> Any:
        errors = self._redis.exceptions
        for _ in range(_MOST_HOPS):
            try:
                return self._client(at).execute_command(*words)
            except errors.MovedError as error:
                if not at[0]:
                    raise
                # Without a host it is that of who says so (`cluster-preferred-endpoint-type unknown-endpoint`).
                self._at = at = (error.host or at[0], error.port)
                with suppress(errors.RedisError):
                    self._learn(at)
        return self._client(at).execute_command(*words)

    def _client(self, node: Node) -> Any:
        if node not in self._clients:
            options = {**self._options, "host": node[0], "port": node[1]}
            pool = self._redis.ConnectionPool(connection_class=self._kind, **options)
            self._clients.setdefault(node, self._redis.Redis(connection_pool=pool))
        return self._clients[node]

    def _learn(self, at: Node) -> None:
        """Asks a node for all nodes of its cluster."""
        try:
            slots = self._client(at).execute_command("CLUSTER", "SLOTS")
        except self._redis.exceptions.ResponseError:
            # It is alone, or may not say: then it is the only one that is known.
            slots = []
        # A name in the URL leads to the cluster when all of its nodes have other addresses.
        known = {at: None, self._first: None}
        for _, _, *nodes in slots:
            for host, port, *_ in nodes:
                known[(host.decode() if host else "") or at[0], int(port)] = None
        self._nodes = list(known)

    def _go_on(self) -> None:
        """From a node that does not answer to the next one."""
        nodes = self._nodes or [self._at]
        self._at = nodes[(nodes.index(self._at) + 1) % len(nodes)] if self._at in nodes else nodes[0]
