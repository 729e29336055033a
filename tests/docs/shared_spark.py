"""`spark-submit` for a reader's commands, who types many: their jobs run in the session that the tests have anyway, one
after the other, instead of in a Spark that is started for each.
Not here: what a job is told and says, which is as spark-submit has it; tests of Spark itself (`tests/spark`)."""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.spark_jobs import check_interval, decode_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = {Path(str(job.__file__)).name: job for job in (check_interval, decode_slices)}
PORT_VARIABLE = "SPARK_TESTS_PORT"
"""By its first word a job is let have it."""
CUSTOMIZE = """
from pathlib import Path
from strata_cdc.startup import spark
spark.SUBMIT = Path(__file__).with_name("spark-submit")
"""
"""Python imports it before a program's own first line: `sitecustomize`, in the documentation of `site`."""
SUBMIT = f"""#!{sys.executable}
import json, os, socket, sys
with socket.create_connection(("127.0.0.1", int(os.environ["{PORT_VARIABLE}"]))) as connection:
    connection.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
    said = json.loads(connection.makefile().readline())
sys.stdout.write(said["said"])
sys.exit(said["code"])
"""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        arguments = json.loads(self.rfile.readline())
        at = next(at for at, word in enumerate(arguments) if Path(word).name in JOBS)
        said = StringIO()
        # As spark-submit does with both streams of a Python job (core/.../deploy/PythonRunner.scala).
        with redirect_stdout(said), redirect_stderr(said):
            code = JOBS[Path(arguments[at]).name].main(arguments[at + 1 :])
        answer = {"said": said.getvalue(), "code": code}
        self.wfile.write(json.dumps(answer).encode() + b"\n")


@contextmanager
def shared_spark(session: Any, folder: Path) -> Iterator[dict[str, str]]:
    """Variables by which `strata` finds this spark-submit, as long as the block lasts.

    Args:
        session: Of Spark.
        folder: An empty one.
    """
    (folder / "sitecustomize.py").write_text(CUSTOMIZE)
    (folder / "spark-submit").write_text(SUBMIT)
    (folder / "spark-submit").chmod(0o755)
    with pytest.MonkeyPatch.context() as patched, socketserver.TCPServer(("127.0.0.1", 0), _Handler) as server:
        patched.setattr(session, "stop", lambda: None)
        for job in (check_interval, decode_slices):
            patched.setattr(job, "open_session", lambda _: session)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {"PYTHONPATH": str(folder), PORT_VARIABLE: str(server.server_address[1])}
        finally:
            server.shutdown()
            thread.join()
