"""OpenStack's object store with its S3 interface, on one disk: beside moto (`s3_server.py`) a second implementation,
with no code in common, whose listings come from databases of their own.
Not here: the fixtures (`conftest.py`)."""

from __future__ import annotations

import getpass
import os
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyarrow.fs import S3FileSystem

from scripts.ports import free_port
from scripts.state import REPOSITORY
from tests.s3_server import BUCKET
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS: Final = REPOSITORY / ".strata" / "s3" / "bin"
STORAGE: Final = ("account", "container", "object")
"""The servers that hold data; each has a ring, which says where it is."""
RINGS: Final = """
import sys
from swift.common.ring import RingBuilder
for path, port in zip(sys.argv[1::2], sys.argv[2::2]):
    builder, address = RingBuilder(4, 1, 0), {"ip": "127.0.0.1", "port": int(port)}
    replication = {f"replication_{name}": value for name, value in address.items()}
    builder.add_dev({"region": 1, "zone": 1, "device": "disk", "weight": 1, "meta": "", **address, **replication})
    builder.rebalance()
    builder.get_ring().save(path)
"""
"""As `swift-ring-builder` does, a process for each step."""
HASHES: Final = "[swift-hash]\nswift_hash_path_suffix = strata\n[storage-policy:0]\nname = one\ndefault = yes\n"
SERVER: Final = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
[pipeline:main]
pipeline = {pipeline}
[app:{name}-server]
use = egg:swift#{name}
"""
S3: Final = ("catch_errors", "cache", "listing_formats", "s3api", "tempauth", "copy", "slo", "dlo")
OPTIONS: Final = {
    "cache": "paste.filter_factory = tests.swift_cache:filter_factory",
    "s3api": "use = egg:swift#s3api\nlocation = us-east-1",
    "tempauth": "use = egg:swift#tempauth\nuser_test_strata = sesame .admin",
}


@contextmanager
def start_swift(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which `s3://lake/` is a bucket of a store that lives as long as the `with` block.

    Raises:
        FileNotFoundError: The programs are not there.
    """
    if not (PROGRAMS / "swift-proxy-server").exists():
        raise FileNotFoundError(f"{PROGRAMS}/swift-proxy-server: run `scripts/setup.sh tests`")
    (folder / "devices" / "disk").mkdir(parents=True)
    (folder / "swift.conf").write_text(HASHES)
    with ExitStack() as running:
        ports = {name: free_port() for name in STORAGE}
        made = [part for name, port in ports.items() for part in (folder / f"{name}.ring.gz", str(port))]
        subprocess.run([PROGRAMS / "python", "-c", RINGS, *made], check=True, capture_output=True)
        for name, port in ports.items():
            running.enter_context(_running(folder, name, port, f"{name}-server"))
        port = free_port()
        filters = "".join(f"[filter:{name}]\n{OPTIONS.get(name, f'use = egg:swift#{name}')}\n" for name in S3)
        options = f"account_autocreate = true\nallow_account_management = true\n{filters}"
        running.enter_context(_running(folder, "proxy", port, " ".join((*S3, "proxy-server")), options))
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test:strata",
            "AWS_SECRET_ACCESS_KEY": "sesame",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        _make_bucket(environment)
        yield environment


@contextmanager
def _running(folder: Path, name: str, port: int, pipeline: str, options: str = "") -> Iterator[None]:
    settings = SERVER.format(port=port, user=getpass.getuser(), folder=folder, pipeline=pipeline, name=name)
    path = folder / f"{name}.conf"
    path.write_text(settings + options)
    with (folder / f"{name}.log").open("wb") as out:
        command, environment = [PROGRAMS / f"swift-{name}-server", path], {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _make_bucket(environment: dict[str, str]) -> None:
    store = S3FileSystem(
        access_key=environment["AWS_ACCESS_KEY_ID"],
        secret_key=environment["AWS_SECRET_ACCESS_KEY"],
        region=environment["AWS_REGION"],
        endpoint_override=environment["AWS_ENDPOINT_URL"],
        allow_bucket_creation=True,
    )

    def is_made() -> bool:
        with suppress(OSError):
            store.create_dir(BUCKET)
            return True
        return False

    wait_until(is_made)
