"""A proxy before the S3-speaking server: it counts what goes through, and makes trouble where a test wants it:
`store_proxy UPSTREAM RULES LOG`. A process of its own: deltalake holds the interpreter while it waits for an answer.
Not here: the server (`s3_server.py`)."""

from __future__ import annotations

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
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from scripts.state import REPOSITORY
from tests.http_messages import Answer, Connection, Server, Upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.http_messages import Request

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
"""What `CheckedIndex.fault` says of a listing that answered so."""


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
    command = [sys.executable, "-m", "tests.store_proxy", upstream, str(rules), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
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


def _there(store: Upstream, bucket: str, prefix: str, after: str = "") -> dict[str, _Object]:
    """The objects of a store whose keys begin with a prefix, by key."""
    found: dict[str, _Object] = {}
    query = {"list-type": "2", "prefix": prefix, "start-after": after}
    while True:
        page = ET.fromstring(store.ask("GET", f"/{bucket}?{urlencode(query)}", {}).body)
        for entry in page.iter(f"{{{_NAMESPACE}}}Contents"):
            key, *rest = (
                entry.findtext(f"{{{_NAMESPACE}}}{name}", "") for name in ("Key", "Size", "ETag", "LastModified")
            )
            found[key] = _Object(int(rest[0]), rest[1], rest[2])
        token = page.findtext(f"{{{_NAMESPACE}}}NextContinuationToken")
        if token is None:
            return found
        query["continuation-token"] = token


class _Proxied(Connection):
    """A client's connection, and another to the store."""

    store_address: tuple[str, int]
    known: _Rules
    written: IO[str]

    def setup(self) -> None:
        super().setup()
        self._store = Upstream(*self.store_address)

    def finish(self) -> None:
        self._store.close()
        super().finish()

    def answer(self, request: Request) -> bool:
        """Answers with what the store says, unless a rule has a fault for it."""
        fault = self.known.fault(request.method, request.path)
        if fault in _ERRORS:
            self._note(request, b"", 0, fault)
            return self._answer(request, Answer(int(fault), {}, _ERRORS[fault]))
        if fault == "reset":
            self._note(request, b"", 0, fault)
            return self._reset()
        death, _, process = (fault or "").partition(" ")
        if death == "before":
            self._note(request, b"", 0, fault)
            os.kill(int(process), signal.SIGKILL)
            return self._reset()
        former = self._objects(request) if death == UNLISTED else {}
        answer = self._forward(request, _CONDITIONS if fault == CARELESS else set())
        if answer.status < _FAILED and former:
            with self.known.lock:
                self.known.listings.note(former, int(process))
        if "list-type=2" in request.path and self.known.listings:
            fault, answer = self._late(request, fault, answer)
        return self._end(request, fault, answer)

    def _end(self, request: Request, fault: str | None, answer: Answer) -> bool:
        """The client gets the answer, a part of it, or none."""
        content = answer.body
        is_cut = fault == "cut" and len(content) > 1 and request.method != "HEAD"
        self._note(request, content[: len(content) // 2] if is_cut else content, answer.status, fault)
        death, _, process = (fault or "").partition(" ")
        if death == "after":
            os.kill(int(process), signal.SIGKILL)
        if fault == "late" or death == "after":
            return self._reset()
        return self._answer(request, answer, cut=is_cut)

    def _objects(self, request: Request) -> dict[str, _Object | None]:
        """By path, the objects that the request changes, as they are now."""
        url = urlsplit(request.path)
        path, query = unquote(url.path).strip("/"), dict(parse_qsl(url.query, keep_blank_values=True))
        bucket = path.partition("/")[0]
        if "uploads" in query or "partNumber" in query or (request.method == "DELETE" and "uploadId" in query):
            return {}
        keys = [path.removeprefix(f"{bucket}/")]
        if "delete" in query:
            keys = [key.text or "" for key in ET.fromstring(request.body).iter() if key.tag.endswith("}Key")]
        return {f"{bucket}/{key}": _there(self._store, bucket, key).get(key) for key in keys}

    def _late(self, request: Request, fault: str | None, answer: Answer) -> tuple[str | None, Answer]:
        """What became of a listing, and the answer to it."""
        url = urlsplit(request.path)
        bucket, query = unquote(url.path).strip("/"), dict(parse_qsl(url.query, keep_blank_values=True))
        there = _there(self._store, bucket, query.get("prefix", ""), query.get("start-after", ""))
        with self.known.lock:
            listed = self.known.listings.late(bucket, query, there)
        if listed is None:
            return fault, answer
        return LATE_LISTING, answer._replace(body=_listing(bucket, query, listed))

    def _note(self, request: Request, content: bytes, status: int, fault: str | None) -> None:
        seen = Seen(request.method, request.path, len(request.body), len(content), status, fault)
        with self.known.lock:
            self.written.write(json.dumps(vars(seen)) + "\n")
            self.written.flush()

    def _forward(self, request: Request, left_out: set[str]) -> Answer:
        dropped = _HOP | {"expect"} | left_out
        kept = {name: value for name, value in request.headers.items() if name not in dropped}
        answer = self._store.ask(request.method, request.path, kept, request.body)
        return answer._replace(headers={name: value for name, value in answer.headers.items() if name not in _HOP})

    def _answer(self, request: Request, answer: Answer, *, cut: bool = False) -> bool:
        headers, content = dict(answer.headers), answer.body
        length = headers.pop("content-length", None)
        headers["content-length"] = length if request.method == "HEAD" and length else str(len(content))
        sent = b"" if request.method == "HEAD" else content[: len(content) // 2] if cut else content
        self.send(Answer(answer.status, headers, sent))
        return self._reset() if cut else True

    def _reset(self) -> bool:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False


class _Server(Server):
    def handle_error(self, *_: object) -> None:
        """A client that goes away is no error here."""


def _serve(upstream: str, rules: Path, log: Path) -> None:
    url = urlsplit(upstream)
    _Proxied.store_address = url.hostname or "", url.port or 80
    _Proxied.known, _Proxied.written = _Rules(rules), log.open("a")
    with _Server(("127.0.0.1", 0), _Proxied) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
