"""`strata serve` by HTTPS, and with clients' certificates: nobody without one gets as far as to a request."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from scripts.ports import free_port
from strata_cdc.errors import Usage
from strata_cdc.serve.tls import tls_options
from tests.certificates import make
from tests.serve.conftest import TOKEN

STRATA = str(Path(sys.executable).with_name("strata"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    ours, others = make(folder, "ca"), make(folder, "other-ca")
    for name, issuer in (("server", ours), ("client", ours), ("stranger", others)):
        make(folder, name, issuer)
    (folder / "settings.toml").write_text('lake = "lake"\nstore = "sqlite:///s.db"\n[sources.s]\nconnection = "c"\n')
    return folder


def environment(folder, **more):
    mine = {"STRATA_SETTINGS": str(folder / "settings.toml"), "AIRFLOW_CONN_C": "mysql://u:p@127.0.0.1:1/"}
    return os.environ | mine | {"PYTHONUNBUFFERED": "1"} | more


def ask(folder, address, name=None, **headers):
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    if name is not None:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    with httpx.Client(trust_env=False, timeout=60, transport=httpx.HTTPTransport(verify=context, retries=8)) as client:
        return client.get(f"{address}/api/sources", headers=headers).status_code


@pytest.mark.parametrize("has_token", [False, True])
def test_only_who_has_a_certificate_is_let_in(certificates, has_token):
    port = free_port()
    options = ["--tls-cert", "server.pem", "--tls-key", "server.key", "--client-ca", "ca.pem"]
    more = {"STRATA_SERVE_TOKEN": TOKEN} if has_token else {}
    with subprocess.Popen(
        [STRATA, "serve", "--port", str(port), *options],
        env=environment(certificates, **more),
        cwd=certificates,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            said, address = process.stdout.readline().strip(), f"https://127.0.0.1:{port}"
            assert said.startswith(address)
            assert ("token" in said) == has_token
            assert ask(certificates, address, "client") == (401 if has_token else 200)
            assert ask(certificates, address, "client", Authorization=f"Bearer {TOKEN}") == 200
            for name in (None, "stranger"):
                with pytest.raises(httpx.TransportError):
                    ask(certificates, address, name, Authorization=f"Bearer {TOKEN}")
            with pytest.raises(httpx.TransportError), httpx.Client(trust_env=False, timeout=60) as client:
                client.get(f"http://127.0.0.1:{port}/api/sources")
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("certificate", "key", "client_ca", "said"),
    [
        (None, None, "ca.pem", "a certificate and its key"),
        ("server.pem", None, None, "a certificate and its key"),
        ("server.pem", "client.key", None, "cannot be set up"),
        ("server.pem", "nowhere.key", None, "cannot be set up"),
        ("server.pem", "server.key", "server.key", "cannot be set up"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_listens(certificates, certificate, key, client_ca, said):
    paths = [None if name is None else certificates / name for name in (certificate, key, client_ca)]
    with pytest.raises(Usage, match=said):
        tls_options(*paths)


def test_without_a_certificate_there_is_no_tls():
    assert tls_options(None, None, None) == {}
