"""A MariaDB server that keeps its binlog in its storage engine (12.3), as a script: it sends what a real server has
written to files as that one would send it, and may break the connection at any packet.
Not here: tests.

What it sends and refuses is that of MariaDB's source (sql/sql_repl.cc: `init_binlog_sender`, `send_engine_events`,
`send_event_to_slave`, `send_event_gtid_list_and_until`, `send_heartbeat_event`).
"""

from __future__ import annotations

import itertools
import re
import socket
import struct
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.events.domain_gtid import parse_domain_gtid
from strata_cdc.binlog.protocol.connection import ServerAddress
from tests.binlog.hostile import OK, PATIENT, Peer, error, greeting

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator
    from pathlib import Path

VERSION: Final = "12.3.2-MariaDB-log"
UID: Final = "of-the-script"
_GTID, _FORMAT = 162, 15
_NOT_SENT: Final = frozenset({3, 4, _FORMAT, 161, 163, 164})
"""What files have and such a binlog has not: STOP, ROTATE, FORMAT_DESCRIPTION, and MariaDB's events of a file."""
_NON_BLOCKING: Final = 1
_FATAL: Final = 1236


def event(kind: int, body: bytes, *, flags: int = 0x20, end: int = 0, server_id: int = 1) -> bytes:
    """An event that is made for a connection."""
    return struct.pack("<IBIIIH", 0, kind, server_id, 19 + len(body), end, flags) + body


@dataclass
class Group:
    """One transaction, or one statement that stands alone, as the engine has it: without positions and checksums."""

    domain: int
    server: int
    seq: int
    events: list[bytes]
    file_no: int = 0
    """Number of the `.ibb` file."""
    restarted: bool = False
    """Whether the server was started before it: a FORMAT_DESCRIPTION lies there."""

    def __str__(self) -> str:
        """Its GTID."""
        return f"{self.domain}-{self.server}-{self.seq}"


def groups_of(paths: Iterable[Path], chance: random.Random) -> tuple[list[Group], bytes]:
    """The transactions of real files, and the FORMAT_DESCRIPTION of the last one as such a server sends it."""
    groups: list[Group] = []
    form, file_no = b"", 0
    for path in paths:
        data = path.read_bytes()
        at, has_checksum = 4, False
        while at < len(data):
            length = int.from_bytes(data[at + 9 : at + 13], "little")
            sent, kind = data[at : at + length], data[at + 4]
            at += length
            if kind == _FORMAT:
                form, has_checksum = sent, sent[-5] == 1
            if kind in _NOT_SENT:
                continue
            body = sent[19 : -4 if has_checksum else None]
            plain = sent[:9] + (19 + len(body)).to_bytes(4, "little") + bytes(4) + sent[17:19] + body
            if kind == _GTID:
                gtid = parse_domain_gtid(body, int.from_bytes(sent[5:9], "little")).gtid
                file_no += chance.random() < 0.1
                restarted = bool(groups) and chance.random() < 0.05
                groups.append(Group(gtid.sid.domain, gtid.sid.server, gtid.gno, [], file_no, restarted))
            groups[-1].events.append(plain)
    return groups, _format_event(form, 0, 0x20)


def _format_event(form: bytes, seconds: int, flags: int) -> bytes:
    """FORMAT_DESCRIPTION without a position; it has a checksum, although the other events have none."""
    body = bytearray(form[19:-4])
    body[2:52] = VERSION.encode().ljust(50, b"\0")
    body[52:56] = seconds.to_bytes(4, "little")
    body[-1] = 0
    plain = struct.pack("<IBIIIH", seconds, _FORMAT, 1, 19 + len(body) + 4, 0, flags) + bytes(body)
    return plain + zlib.crc32(plain).to_bytes(4, "little")


State = dict[tuple[int, int], int]


@dataclass
class EngineServer:
    """What the server has, and what it does to a connection."""

    groups: list[Group]
    form: bytes
    chance: random.Random
    first: int = 0
    """How many of the groups it has purged."""
    visible: int = 0
    """How many of them it has executed by now."""
    durable: int | None = None
    """How many of these are durable, and may be sent; None: all."""
    packets: int | None = None
    """After so many packets of its stream it breaks the connection, in the middle of the next one; None: never."""
    uid: str = UID
    requests: list[str] = field(default_factory=list)
    """Each position that was requested."""
    sends: list[int] = field(default_factory=list)
    """Packets of each stream."""

    def __post_init__(self) -> None:
        """Has written everything."""
        self.visible = self.visible or len(self.groups)

    def state(self, count: int) -> State:
        """The newest number of each domain and writer after some groups, those written last at the end."""
        state: State = {}
        for group in self.groups[:count]:
            state.pop((group.domain, group.server), None)
            state[group.domain, group.server] = group.seq
        return state

    def position(self, count: int | None = None) -> str:
        """`gtid_binlog_pos`."""
        newest: dict[int, str] = {}
        for (domain, server), seq in self.state(self.visible if count is None else count).items():
            newest.pop(domain, None)
            newest[domain] = f"{domain}-{server}-{seq}"
        return ",".join(newest[domain] for domain in sorted(newest))

    # Statements -----------------------------------------------------------------------------------

    def serve(self, peer: Peer) -> None:
        """Answers on one connection until its stream ends."""
        peer.send(greeting(b"mysql_native_password", VERSION.encode()))
        peer.receive()
        peer.send(OK)
        session: dict[str, str] = {}
        while command := peer.receive():
            if command[0] == 0x12:
                self._dump(peer, session, int.from_bytes(command[5:7], "little"))
                return
            text = command[1:].decode(errors="replace")
            for name, quoted, plain in re.findall(r"@(\w+) = (?:'([^']*)'|([^,]+))", text):
                session[name] = quoted or plain
            self._answer(peer, text)

    def _answer(self, peer: Peer, text: str) -> None:
        now = int(time.time())
        answers = {
            "@@GLOBAL.server_uid, @@GLOBAL.server_id": [(self.uid, 1, VERSION, 1, self.position(), now)],
            "binlog_storage_engine": [("binlog_storage_engine", "innodb")],
            "@@GLOBAL.gtid_slave_pos": [(self.uid, "ON", self.position(), "", 1, VERSION)],
            "UNIX_TIMESTAMP()": [(now,)],
            "GET_LOCK": [(1, 7)],
            "IS_USED_LOCK": [(1,)],
            "BINARY LOGS": [(f"binlog-{number:06}.ibb", 262144) for number in (0, 1)],
            "MASTER STATUS": [("binlog-000001.ibb", 8192, "", "")],
        }
        if "BINLOG_GTID_POS" in text:
            peer.send(error(4251, b"BINLOG_GTID_POS() is not available when --binlog-storage-engine is enabled"))
            return
        rows = next((rows for word, rows in answers.items() if word in text), None)
        if rows is None or text.startswith("SET"):
            peer.send(OK)
        else:
            peer.result(*rows)

    # The stream -----------------------------------------------------------------------------------

    def _dump(self, peer: Peer, session: dict[str, str], flags: int) -> None:
        if "slave_connect_state" not in session:
            peer.send(error(4252, b"Slave must enable GTID mode when master uses --binlog-storage-engine"))
            return
        self.requests.append(session["slave_connect_state"])
        sender = _Sender(self, peer, session.get("slave_gtid_strict_mode") == "1")
        wanted = [tuple(map(int, gtid.split("-"))) for gtid in session["slave_connect_state"].split(",") if gtid]
        try:
            refusal = sender.begin({domain: (server, seq) for domain, server, seq in wanted})
            if refusal is None:
                refusal = sender.send_all(blocks=not flags & _NON_BLOCKING)
            peer.send(b"\xfe\0\0\2\0" if refusal is None else error(_FATAL, refusal.encode()))
        except _BrokenError:
            # A reset, as a killed server or a firewall sends it: what has not been read yet may be lost.
            if self.chance.random() < 0.5:
                peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            self.sends.append(sender.sent)


class _BrokenError(Exception):
    """The connection is to break here."""


class _Sender:
    """One stream."""

    def __init__(self, server: EngineServer, peer: Peer, is_strict: bool) -> None:
        self._server, self._peer, self._is_strict = server, peer, is_strict
        self._wanted: dict[int, tuple[int, int]] = {}
        self._at, self._file_no, self.sent = server.first, -1, 0

    def begin(self, wanted: dict[int, tuple[int, int]]) -> str | None:
        """Why it cannot begin there; None if it can."""
        server = self._server
        has, gone = server.state(server.visible), server.state(server.first)
        for domain, (writer, seq) in wanted.items():
            if has.get((domain, writer), 0) < seq and any(known == domain for known, _ in has):
                return (
                    f"Error: connecting slave requested to start from GTID {domain}-{writer}-{seq}, which is not in "
                    "the master's binlog"
                )
        last_of = {domain: (writer, seq) for (domain, writer), seq in gone.items()}
        for (domain, writer), seq in gone.items():
            asked = wanted.get(domain)
            is_last = asked == last_of[domain]
            if asked is None or (asked[0] == writer and asked[1] <= seq and not is_last):
                return (
                    "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too "
                    "old and required binlog files have been purged."
                )
        self._wanted = {domain: gtid for domain, gtid in wanted.items() if gtid != last_of.get(domain)}
        return None

    def send_all(self, *, blocks: bool) -> str | None:
        """Sends what there is, and waits for more if it may; why it ends too early, or None."""
        self._send(self._server.form)
        while True:
            durable = self._server.durable
            while self._at < (self._server.visible if durable is None else durable):
                refusal = self._send_group(self._server.groups[self._at])
                if refusal is not None:
                    return refusal
                self._at += 1
            if not blocks:
                return None
            self._heartbeat()
            time.sleep(0.02)

    def _send_group(self, group: Group) -> str | None:
        if group.restarted and not self._wanted:
            self._send(_format_event(self._server.form, 1_700_000_000 + self._at, 0))
        if group.file_no != self._file_no:
            self._file_no = group.file_no
            self._send(event(4, struct.pack("<Q", 0) + f"binlog-{group.file_no:06}.ibb".encode()))
        if self._server.chance.random() < 0.1:
            self._heartbeat()
        asked, skips, reached = self._wanted.get(group.domain), False, False
        if asked is not None:
            is_writer = asked[0] == group.server
            skips = not is_writer or group.seq <= asked[1]
            reached = is_writer and group.seq >= asked[1]
            if reached and group.seq > asked[1] and self._is_strict:
                return (
                    f"The binlog on the master is missing the GTID {group.domain}-{asked[0]}-{asked[1]} requested by "
                    "the slave (even though both a prior and a subsequent sequence number does exist), and GTID strict "
                    "mode is enabled"
                )
            if reached:
                del self._wanted[group.domain]
        for number, plain in enumerate(group.events):
            if not skips:
                self._send(plain)
            # Directly after the GTID, in the transaction, if that is the first one after the position.
            if reached and number == (len(group.events) - 1 if skips else 0):
                self._send(event(163, struct.pack("<I", 0) + bytes(2)))
        return None

    def _heartbeat(self) -> None:
        """Beyond 4 GiB the header has no position: 8 bytes before the name have it."""
        at = self._server.chance.choice([4096, 1 << 32, 1 << 40])
        name = f"binlog-{max(self._file_no, 0):06}.ibb".encode()
        if at >> 32:
            self._send(event(27, struct.pack("<Q", at) + name, flags=0))
        else:
            self._send(event(27, name, flags=0, end=at))

    def _send(self, plain: bytes) -> None:
        packet = b"\0" + plain
        if self.sent == self._server.packets:
            data = len(packet).to_bytes(3, "little") + bytes([self._peer.number & 255]) + packet
            self._peer.sock.sendall(data[: self._server.chance.randrange(len(data))])
            raise _BrokenError
        self._peer.send(packet)
        self.sent += 1


@contextmanager
def running(server: EngineServer) -> Iterator[ServerAddress]:
    """Its address for the time of a `with` block."""
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(client: socket.socket) -> None:
        with client, suppress(OSError):
            server.serve(Peer(client, bytearray()))

    def accept() -> None:
        with suppress(OSError):
            for _ in itertools.count():
                threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield ServerAddress("127.0.0.1", listener.getsockname()[1], "u", "", limits=PATIENT)
