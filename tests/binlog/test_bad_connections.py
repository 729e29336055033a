"""What can be wrong between a server and a landing: one clear error each, and nothing landed is harmed."""

from __future__ import annotations

import random
import socket
import threading
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.events.gtid import encode_gtid_set
from strata_cdc.binlog.protocol.compression import ZLIB, ZSTD, CompressedSocket
from strata_cdc.binlog.protocol.connection import ProtocolCompression, ServerAddress, TlsMode, connect
from strata_cdc.binlog.protocol.replication import BinlogStream, Until
from strata_cdc.errors import (
    AccessDeniedError,
    CorruptEventError,
    SettingsError,
    SourceSettingsError,
    SourceUnavailableError,
)
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.position.sets import GtidSet
from tests.interposed import interposed
from tests.landing.landing import address_of, assert_is_the_servers, executed, land
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[MysqlServer]:
    """A server without TLS."""
    with start_server(tmp_path_factory.mktemp("bad"), "--tls-version=") as running:
        running.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        yield running


@contextmanager
def cutting_proxy(server: MysqlServer, limits: Iterator[int]) -> Iterator[int]:
    """The port of a proxy that cuts each connection after as many bytes from the server as the next limit says."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket, limit: int) -> None:
        with client, socket.create_connection((server.host, server.port)) as upstream:
            threading.Thread(target=pump, args=(client, upstream, 1 << 40), daemon=True).start()
            pump(upstream, client, limit)

    def pump(source: socket.socket, target: socket.socket, limit: int) -> None:
        with suppress(OSError):
            while limit > 0 and (data := source.recv(min(limit, 65536))):
                target.sendall(data)
                limit -= len(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client, next(limits)), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield listener.getsockname()[1]


def test_a_proxy_that_cuts(server, tmp_path):
    server.run_sql("INSERT INTO t (a) VALUES (REPEAT('x', 20000));" * 30, "d")
    chance = random.Random(3)
    cuts = 0
    with cutting_proxy(server, iter(lambda: chance.randrange(60, 400_000), None)) as port:
        while True:
            try:
                landed = land_binlog(ServerAddress("127.0.0.1", port), lake=str(tmp_path), source="s")
            except SourceUnavailableError:
                cuts += 1
                assert not list(tmp_path.glob("landing/s/*.part"))
            else:
                break
    assert cuts >= 2
    assert landed.executed == str(executed(server))
    assert_is_the_servers(server, tmp_path)


def test_tls_that_cannot_be_had(server, tmp_path):
    with pytest.raises(SourceSettingsError, match=r"does not speak TLS as requested.*Check `ssl_mode`"):
        land_binlog(address_of(server, tls=TlsMode.REQUIRED), lake=str(tmp_path), source="s")
    address = address_of(server, tls=TlsMode.VERIFY_CA, tls_ca=str(tmp_path / "nowhere.pem"))
    with pytest.raises(SettingsError, match=r"ssl_ca.*nowhere\.pem"):
        land_binlog(address, lake=str(tmp_path), source="s")
    assert not list(tmp_path.glob("landing/s/*.binlog"))


def test_tls_that_is_required_or_not_trusted(mysql_server, tmp_path):
    others = mysql_server.binlog_dir / "client-cert.pem"
    with pytest.raises(SourceSettingsError, match="certificate verify failed"):
        land_binlog(address_of(mysql_server, tls=TlsMode.VERIFY_CA, tls_ca=str(others)), lake=str(tmp_path), source="s")
    trusted = address_of(mysql_server, tls=TlsMode.VERIFY_CA, tls_ca=str(mysql_server.binlog_dir / "ca.pem"))
    assert land_binlog(trusted, lake=str(tmp_path), source="s").executed == str(executed(mysql_server))
    mysql_server.run_sql("SET GLOBAL require_secure_transport = ON")
    try:
        with pytest.raises(AccessDeniedError, match="insecure transport"):
            land_binlog(address_of(mysql_server, tls=TlsMode.DISABLED), lake=str(tmp_path), source="s")
    finally:
        mysql_server.run_in_client("SET GLOBAL require_secure_transport = OFF")


@pytest.mark.parametrize("algorithm", [ProtocolCompression.ZLIB, ProtocolCompression.ZSTD])
def test_a_compressed_protocol(server, mysql_server, tmp_path, algorithm):
    noise = "".join(f"INSERT INTO t (a) VALUES (HEX(RANDOM_BYTES({size})));" for size in (1, 40, 1000, 500))
    server.run_sql("FLUSH BINARY LOGS; INSERT INTO t (a) VALUES (REPEAT('x', 3000000)), ('y');" + noise, "d")
    address = address_of(server, compression=algorithm)
    assert land_binlog(address, lake=str(tmp_path), source="s").executed == str(executed(server))
    assert_is_the_servers(server, tmp_path)
    with connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Compression_algorithm'")
        assert cursor.fetchall() == (("Compression_algorithm", algorithm),)
        for size in (0, 1, 100_000, 20_000_000, 7):
            cursor.execute("SELECT REPEAT('x', %s), 7, LENGTH(%s)", (size, "y" * min(size, 1_000_000)))
            ((text, seven, length),) = cursor.fetchall()
            assert (len(text), seven, length) == (size, 7, min(size, 1_000_000))
    over_tls = address_of(mysql_server, compression=algorithm, tls=TlsMode.REQUIRED)
    assert land_binlog(over_tls, lake=str(tmp_path / "tls"), source="s").executed == str(executed(mysql_server))
    with cutting_proxy(server, iter(lambda: 2_000, None)) as port:
        cut = ServerAddress("127.0.0.1", port, compression=algorithm)
        with pytest.raises(SourceUnavailableError):
            land_binlog(cut, lake=str(tmp_path / "cut"), source="s")
    server.run_sql("SET GLOBAL protocol_compression_algorithms = 'uncompressed'")
    try:
        with pytest.raises(SourceSettingsError, match=f"does not compress its protocol by {algorithm}"):
            land_binlog(address, lake=str(tmp_path), source="s")
    finally:
        server.run_sql("SET GLOBAL protocol_compression_algorithms = DEFAULT")


@pytest.mark.parametrize("algorithm", [ZLIB, ZSTD], ids=lambda algorithm: algorithm.name)
@pytest.mark.parametrize("damage", ["garbage", "short", "size"])
def test_a_damaged_compressed_packet(algorithm, damage):
    data = bytes(range(256)) * 40
    body = algorithm.compress(data)
    body = {"garbage": b"no" + body[2:], "short": body[: len(body) // 2], "size": body}[damage]
    size = len(data) + (1 if damage == "size" else 0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(len(body).to_bytes(3, "little") + b"\0" + size.to_bytes(3, "little") + body)
        with pytest.raises(CorruptEventError, match="compressed packet"):
            CompressedSocket(ours, algorithm).read(len(data))


def test_a_replica_identity_that_is_in_use(server, tmp_path):
    """Landings take a new one each; a clash ends the older stream with what the server says of it."""
    first, second = BinlogStream.open(address_of(server)), BinlogStream.open(address_of(server))
    seen = encode_gtid_set(executed(server))
    try:
        items = first.read_events(seen, Until.CLOSED)
        with interposed(lambda _: uuid.UUID(int=7), (uuid, "uuid4")):
            next(items)
            next(second.read_events(seen, Until.CLOSED))
        with pytest.raises(SourceUnavailableError, match="replica with the same server_uuid"):
            for _ in items:
                pass
    finally:
        first.close()
        second.close()
    assert GtidSet.parse(land(server, tmp_path).executed) == executed(server)
