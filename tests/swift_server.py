"""OpenStack's object store with its S3 interface, on one disk: beside moto (`s3_server.py`) a second implementation,
with no code in common, whose listings come from databases of their own.
Not here: the fixtures (`conftest.py`)."""

from __future__ import annotations

import getpass
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
S3: Final = ("catch_errors", "listing_formats", "s3api", "tempauth", "copy", "slo", "dlo")
OPTIONS: Final = {
    "s3api": "location = us-east-1\n",
    "tempauth": "user_test_strata = sesame .admin\n",
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
        for name in STORAGE:
            port = free_port()
            _make_ring(folder / f"{name}.builder", port)
            running.enter_context(_running(folder, name, port, f"{name}-server"))
        port = free_port()
        filters = "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n{OPTIONS.get(name, '')}" for name in S3)
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


def _make_ring(builder: Path, port: int) -> None:
    for words in (["create", "4", "1", "0"], ["add", f"r1z1-127.0.0.1:{port}/disk", "1"], ["rebalance"]):
        command = [str(PROGRAMS / "swift-ring-builder"), str(builder), *words]
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def _running(folder: Path, name: str, port: int, pipeline: str, options: str = "") -> Iterator[None]:
    settings = SERVER.format(port=port, user=getpass.getuser(), folder=folder, pipeline=pipeline, name=name)
    path = folder / f"{name}.conf"
    path.write_text(settings + options)
    with (folder / f"{name}.log").open("wb") as out:
        process = subprocess.Popen([PROGRAMS / f"swift-{name}-server", path], stdout=out, stderr=out)
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
