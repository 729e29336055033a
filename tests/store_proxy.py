"""A proxy before the S3-speaking server: it counts what goes through, and makes trouble where a test wants it:
`store_proxy UPSTREAM RULES LOG`. A process of its own: deltalake holds the interpreter while it waits for an answer.
Not here: the server (`s3_server.py`)."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from urllib.parse import SplitResult

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_HOP = {"connection", "transfer-encoding", "keep-alive"}
_CONDITIONS = {"if-match", "if-none-match"}
_FAILED = 300
_ERRORS = {
    "500": b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>",
    "503": b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}
FAULTS = ("500", "503", "reset", "cut", "late")
"""Answers with an error; the connection is closed before anything is answered, in the middle of the answer, or after
the store has done it."""
DEATHS = ("before", "after")
"""With the id of a process after it: that process is killed before the store is asked, or once it has answered."""
CARELESS = "careless"
"""The store is not told of the request's conditions."""
UNLISTED = "unlisted"
"""With a number after it, of a request that writes or deletes an object: so many listings still answer as if it had not
been made. Requests for the object by its name know of it."""
LATE_LISTING = "late listing"
"""What `Seen.fault` says of a listing that answered so."""


@dataclass(frozen=True)
class Seen:
    """A request."""

    method: str
    path: str
    """With the bucket and the query."""
    sent: int
    """Bytes of the request's body."""
    received: int
    """Bytes of the answer's body."""
    status: int
    """Of the store's answer; 0 if the store was not asked."""
    fault: str | None
    """What became of the answer."""


@dataclass
class StoreProxy:
    """The address of the proxy, and what it has seen."""

    endpoint: str
    rules: Path
    log: Path

    def spoil(self, *rules: tuple[str, str, int, str]) -> None:
        """From now on, of the requests with a method and a path (regular expressions), every so manyth gets a fault."""
        self.rules.write_text(json.dumps(rules))

    @property
    def seen(self) -> list[Seen]:
        """All requests so far."""
        return [Seen(**json.loads(line)) for line in self.log.read_text().splitlines()]

    @property
    def faults(self) -> Counter[str]:
        """How many there were of each kind."""
        return Counter(seen.fault for seen in self.seen if seen.fault)

    def read(self, part: str = "") -> int:
        """Bytes that were read of objects whose path has a part; listings are no objects."""
        return sum(seen.received for seen in self.seen if seen.method == "GET" and part in unquote(seen.path))

    def written(self, part: str = "") -> int:
        """Bytes that were written to objects whose path has a part."""
        return sum(seen.sent for seen in self.seen if seen.method in {"PUT", "POST"} and part in unquote(seen.path))


@contextmanager
def store_proxy(upstream: str, folder: Path) -> Iterator[StoreProxy]:
    """A proxy before the server at a URL, as long as the `with` block lasts; its files are in a folder."""
    rules, log = folder / "rules.json", folder / "requests.jsonl"
    rules.write_text("[]")
    log.touch()
    command = [sys.executable, __file__, upstream, str(rules), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield StoreProxy(process.stdout.readline().strip(), rules, log)
        finally:
            process.kill()


@dataclass(frozen=True)
class _Object:
    """What a listing says of an object."""

    size: int
    etag: str
    modified: str
    """ISO 8601, UTC."""


class _Listings:
    """What listings answer: objects as they were before the last requests that changed them."""

    def __init__(self) -> None:
        self._former: dict[str, tuple[_Object | None, int]] = {}
        """By path, with the bucket: what is listed, None for nothing, and in how many more answers."""

    def __bool__(self) -> bool:
        """Whether a listing may answer so."""
        return bool(self._former)

    def note(self, former: dict[str, _Object | None], answers: int) -> None:
        for path, listed in former.items():
            # What was not listed before it changed again was not listed at all.
            self._former[path] = self._former.get(path, (listed, 0))[0], answers

    def forget(self) -> None:
        self._former.clear()

    def late(self, bucket: str, query: dict[str, str], there: dict[str, _Object]) -> dict[str, _Object] | None:
        """The objects that are listed instead of those that are there, by key; None: just these."""
        prefix, after = query.get("prefix", ""), query.get("start-after", "")
        listed = dict(there)
        for path, (former, answers) in list(self._former.items()):
            key = path.removeprefix(f"{bucket}/")
            if path == key or not key.startswith(prefix) or key <= after:
                continue
            if former is None:
                listed.pop(key, None)
            else:
                listed[key] = former
            self._former[path] = former, answers - 1
            if answers == 1:
                del self._former[path]
        return None if listed == there else dict(sorted(listed.items()))


def _listing(bucket: str, query: dict[str, str], listed: dict[str, _Object]) -> bytes:
    """The answer to ListObjectsV2, all of it in one page."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    written = quote if query.get("encoding-type") == "url" else escape
    entries, folders = [], []
    for key, of in listed.items():
        folder, mark, _ = key.removeprefix(prefix).partition(delimiter) if delimiter else ("", "", "")
        if mark:
            folders.append(f"{prefix}{folder}{mark}")
            continue
        entries.append(
            f"<Contents><Key>{written(key)}</Key><LastModified>{of.modified}</LastModified><ETag>{escape(of.etag)}"
            f"</ETag><Size>{of.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )
    groups = [
        f"<CommonPrefixes><Prefix>{written(folder)}</Prefix></CommonPrefixes>" for folder in dict.fromkeys(folders)
    ]
    encoding = "<EncodingType>url</EncodingType>" if written is quote else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="{_NAMESPACE}"><Name>{bucket}</Name>'
        f"<Prefix>{written(prefix)}</Prefix>{encoding}<KeyCount>{len(entries) + len(groups)}</KeyCount>"
        f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(entries)}{''.join(groups)}</ListBucketResult>"
    ).encode()


class _Rules:
    """The rules of the file, which a test may replace at any time."""

    def __init__(self, path: Path) -> None:
        self._path, self._text, self._rules = path, "", []
        self._met = Counter[int]()
        self.lock = Lock()
        self.listings = _Listings()

    def fault(self, method: str, path: str) -> str | None:
        with self.lock:
            text = self._path.read_text()
            if text and text != self._text:
                self._text, self._rules, self._met = text, json.loads(text), Counter()
                if UNLISTED not in text:
                    self.listings.forget()
            for number, (methods, paths, every, fault) in enumerate(self._rules):
                if re.fullmatch(methods, method) and re.search(paths, unquote(path)):
                    self._met[number] += 1
                    if self._met[number] % every == 0:
                        return str(fault)
        return None


def _there(address: SplitResult, bucket: str, prefix: str, after: str = "") -> dict[str, _Object]:
    """The objects of a store whose keys begin with a prefix, by key."""
    found: dict[str, _Object] = {}
    query = {"list-type": "2", "prefix": prefix, "start-after": after}
    while True:
        onward = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        onward.request("GET", f"/{bucket}?{urlencode(query)}")
        page = ET.fromstring(onward.getresponse().read())
        onward.close()
        for entry in page.iter(f"{{{_NAMESPACE}}}Contents"):
            key, *rest = (
                entry.findtext(f"{{{_NAMESPACE}}}{name}", "") for name in ("Key", "Size", "ETag", "LastModified")
            )
            found[key] = _Object(int(rest[0]), rest[1], rest[2])
        token = page.findtext(f"{{{_NAMESPACE}}}NextContinuationToken")
        if token is None:
            return found
        query["continuation-token"] = token


def _serve(upstream: str, rules: Path, log: Path) -> None:  # noqa: C901  the handler is in it
    address, known = urlsplit(upstream), _Rules(rules)
    written = log.open("a")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self._body()
            fault = known.fault(self.command, self.path)
            if fault in _ERRORS or fault == "reset":
                self._note(body, b"", 0, fault)
                if fault in _ERRORS:
                    self._answer(int(fault), {}, _ERRORS[fault])
                else:
                    self._reset()
                return
            death, _, process = (fault or "").partition(" ")
            if death == "before":
                self._note(body, b"", 0, fault)
                os.kill(int(process), signal.SIGKILL)
                self._reset()
                return
            former = self._objects(body) if death == UNLISTED else {}
            status, headers, content = self._forward(body, _CONDITIONS if fault == CARELESS else set())
            if status < _FAILED and former:
                with known.lock:
                    known.listings.note(former, int(process))
            if "list-type=2" in self.path and known.listings:
                fault, content = self._late(fault, content)
            is_cut = fault == "cut" and len(content) > 1 and self.command != "HEAD"
            self._note(body, content[: len(content) // 2] if is_cut else content, status, fault)
            if death == "after":
                os.kill(int(process), signal.SIGKILL)
            if fault == "late" or death == "after":
                self._reset()
            else:
                self._answer(status, headers, content, cut=is_cut)

        def _objects(self, body: bytes) -> dict[str, _Object | None]:
            """By path, the objects that the request changes, as they are now."""
            url = urlsplit(self.path)
            path, query = unquote(url.path).strip("/"), dict(parse_qsl(url.query, keep_blank_values=True))
            bucket = path.partition("/")[0]
            if "uploads" in query or "partNumber" in query or (self.command == "DELETE" and "uploadId" in query):
                return {}
            keys = [path.removeprefix(f"{bucket}/")]
            if "delete" in query:
                keys = [key.text or "" for key in ET.fromstring(body).iter() if key.tag.endswith("}Key")]
            return {f"{bucket}/{key}": _there(address, bucket, key).get(key) for key in keys}

        def _late(self, fault: str | None, content: bytes) -> tuple[str | None, bytes]:
            """The answer to a listing, and what became of it."""
            url = urlsplit(self.path)
            bucket, query = unquote(url.path).strip("/"), dict(parse_qsl(url.query, keep_blank_values=True))
            there = _there(address, bucket, query.get("prefix", ""), query.get("start-after", ""))
            with known.lock:
                listed = known.listings.late(bucket, query, there)
            if listed is None:
                return fault, content
            return LATE_LISTING, _listing(bucket, query, listed)

        def _note(self, body: bytes, content: bytes, status: int, fault: str | None) -> None:
            seen = Seen(self.command, self.path, len(body), len(content), status, fault)
            with known.lock:
                written.write(json.dumps(vars(seen)) + "\n")
                written.flush()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815  as the base class has it

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _forward(self, body: bytes, left_out: set[str]) -> tuple[int, dict[str, str], bytes]:
            onward = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
            kept = {
                name: value for name, value in self.headers.items() if name.lower() not in _HOP | {"expect"} | left_out
            }
            kept["Content-Length"] = str(len(body))
            onward.request(self.command, self.path, body, kept)
            answer = onward.getresponse()
            content = answer.read()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            onward.close()
            return answer.status, headers, content

        def _answer(self, status: int, headers: dict[str, Any], content: bytes, *, cut: bool = False) -> None:
            self.send_response_only(status)
            length = headers.pop("Content-Length", None) or headers.pop("content-length", None)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(length if self.command == "HEAD" and length else len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if cut else content)
            if cut:
                self.wfile.flush()
                self._reset()

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """A client that goes away is no error here."""

    with Server(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
