"""Every command connects as `ssl_mode` says, to the source and to its store, or not at all."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, TlsMode, connect
from strata_cdc.cli.main import run
from strata_cdc.errors import SourceSettingsError, StoreUnavailableError, StrataError
from strata_cdc.store.database import open_store, reading
from tests.binlog.certificates import make_authority, make_certificate
from tests.interposed import interposed
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mysql

PASSWORD = "pässwörd-しfor tests"
ACCOUNT = (
    f"CREATE USER strata IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'; GRANT ALL ON *.* TO strata;"
    "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY);"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = make_authority(folder, "authority")
    make_authority(folder, "other")
    make_certificate(authority, "here", "IP:127.0.0.1")
    make_certificate(authority, "client", "DNS:client")
    return folder


@pytest.fixture(scope="module")
def protected(tmp_path_factory, certificates) -> Iterator[MysqlServer]:
    """A server with a certificate for 127.0.0.1; `localhost` is another name."""
    options = (f"--ssl-ca={certificates}/authority.pem", f"--ssl-cert={certificates}/here.pem")
    with start_server(tmp_path_factory.mktemp("tls"), *options, f"--ssl-key={certificates}/here-key.pem") as server:
        server.run_sql(ACCOUNT)
        yield server


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Iterator[MysqlServer]:
    """A server without TLS."""
    with start_server(tmp_path_factory.mktemp("bare"), "--tls-version=") as server:
        server.run_sql(ACCOUNT)
        yield server


def address(port: int, host: str = "127.0.0.1", **options) -> ServerAddress:
    return ServerAddress(host, port, "strata", PASSWORD, **options)


def cipher(one: ServerAddress) -> str:
    with connect(one) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        found = cursor.fetchone()[1]
    engine = open_store(one.to_url("strata"))
    with reading(engine) as opened:
        assert bool(opened.exec_driver_sql("SHOW SESSION STATUS LIKE 'Ssl_cipher'").one()[1]) == bool(found)
    engine.dispose()
    return found


@pytest.mark.parametrize("mode", [TlsMode.PREFERRED, TlsMode.REQUIRED])
def test_what_is_not_checked_is_not_loaded(protected, mode):
    """The machine's certificates: 35 ms for each connection."""
    refused = interposed(lambda *_: pytest.fail("certificates were loaded"), (ssl.SSLContext, "load_default_certs"))
    with refused, connect(address(protected.port, tls=mode)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        assert cursor.fetchone()[1]


@pytest.mark.parametrize("mode", TlsMode)
@pytest.mark.parametrize(
    ("authority", "host", "refused_from"),
    [
        ("authority", "127.0.0.1", None),
        ("authority", "localhost", TlsMode.VERIFY_IDENTITY),
        ("other", "127.0.0.1", TlsMode.VERIFY_CA),
        (None, "127.0.0.1", TlsMode.VERIFY_CA),
    ],
    ids=["its own", "another name", "another authority", "the system's authorities"],
)
def test_a_certificate(protected, certificates, mode, authority, host, refused_from):
    trusted = str(certificates / f"{authority}.pem") if authority else None
    one = address(protected.port, host, tls=mode, tls_ca=trusted)
    strictness = list(TlsMode)
    if refused_from is not None and strictness.index(mode) >= strictness.index(refused_from):
        for opened in (connect, lambda found: open_store(found.to_url("strata"))):
            with pytest.raises(SourceSettingsError, match="does not speak TLS as requested") as caught:
                opened(one)
            assert PASSWORD not in str(caught.value)
    else:
        assert bool(cipher(one)) == (mode is not TlsMode.DISABLED)


def test_a_certificate_of_the_client(protected, certificates):
    protected.run_sql("CREATE USER IF NOT EXISTS known IDENTIFIED BY 'k' REQUIRE X509; GRANT ALL ON *.* TO known")
    files = {"tls_ca": str(certificates / "authority.pem"), "tls": TlsMode.VERIFY_IDENTITY}
    shown = {"tls_cert": str(certificates / "client.pem"), "tls_key": str(certificates / "client-key.pem")}
    one = ServerAddress("127.0.0.1", protected.port, "known", "k", **files, **shown)
    assert cipher(one)
    with pytest.raises(StrataError, match="denied"):
        open_store(ServerAddress("127.0.0.1", protected.port, "known", "k", **files).to_url("strata"))


@pytest.mark.parametrize("mode", TlsMode)
def test_a_server_without_tls(bare, certificates, mode):
    one = address(bare.port, tls=mode, tls_ca=str(certificates / "authority.pem"))
    if mode in (TlsMode.DISABLED, TlsMode.PREFERRED):
        assert cipher(one) == ""
        return
    for opened in (connect, lambda found: open_store(found.to_url("strata"))):
        with pytest.raises(SourceSettingsError, match="does not speak TLS as requested"):
            opened(one)


@contextmanager
def recorded(server: MysqlServer) -> Iterator[tuple[int, bytearray]]:
    """The port of a proxy, and all that clients send through it."""
    listener, sent = socket.create_server(("127.0.0.1", 0)), bytearray()

    def pump(source: socket.socket, target: socket.socket, note: bytearray) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                note += data
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((server.host, server.port)) as upstream:
            back = threading.Thread(target=pump, args=(upstream, client, bytearray()), daemon=True)
            back.start()
            pump(client, upstream, sent)
            back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield listener.getsockname()[1], sent


COMMANDS = (
    ["doctor", "--source", "s"],
    ["snapshot", "--source", "s"],
    ["land", "--source", "s"],
    ["land", "--source", "s", "--follow"],
    ["track", "--source", "s"],
    ["schema", "history", "--source", "s"],
    ["plan", "--source", "s"],
    ["publish", "r", "--source", "s"],
    ["retain", "--source", "s"],
    ["status"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("which", ["bare", "other authority"])
def test_every_command_keeps_to_it(command, which, bare, protected, certificates, tmp_path, monkeypatch, capsys):
    """What no certificate vouches for gets nothing of the login, not even the name."""
    authority = certificates / ("authority.pem" if which == "bare" else "other.pem")
    lake = tmp_path / "lake"
    (lake / "runs" / "s" / "r").mkdir(parents=True)
    (tmp_path / "strata.toml").write_text(f'lake = "{lake}"\n[sources.s]\nconnection = "s"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    with recorded(bare if which == "bare" else protected) as (port, sent):
        url = address(port, tls=TlsMode.VERIFY_IDENTITY, tls_ca=str(authority)).to_url("")
        monkeypatch.setenv("AIRFLOW_CONN_S", url)
        assert run([*command, "--json"]) != 0
    said = "".join(capsys.readouterr())
    assert b"strata" not in sent, bytes(sent)
    assert PASSWORD not in said
    if command[0] != "publish":
        assert "does not speak TLS as requested" in said
    assert len(said.splitlines()) < 30


def test_the_commands_go_through_a_verified_connection(protected, certificates, tmp_path, monkeypatch, capsys):
    (tmp_path / "strata.toml").write_text(f'lake = "{tmp_path}/lake"\n[sources.s]\nconnection = "s"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    with recorded(protected) as (port, sent):
        one = address(port, tls=TlsMode.VERIFY_IDENTITY, tls_ca=str(certificates / "authority.pem"))
        monkeypatch.setenv("AIRFLOW_CONN_S", one.to_url(""))
        for command in (["land", "--source", "s"], ["track", "--source", "s"], ["status"], ["doctor"]):
            assert run([*command, "--json"]) == 0, capsys.readouterr()
    assert b"strata" not in sent
    assert json.loads(capsys.readouterr().out.splitlines()[-1])


def test_an_option_that_is_not_known_is_no_option():
    for option in ("sslmode=verify_ca", "ssl_verify=1", "unix_socket=/x", "enable_cleartext_plugin=maybe"):
        with pytest.raises(StrataError, match=option.split("=")[0]):
            open_store(f"mysql://u:secret@127.0.0.1:1/strata?{option}")
    with pytest.raises(StoreUnavailableError):
        open_store("mysql://u:secret@127.0.0.1:1/strata?charset=utf8mb4")
