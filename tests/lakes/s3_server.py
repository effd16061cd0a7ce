"""A small S3 server on this machine: what pyarrow asks of a store, answered from memory as S3 does.

Signatures, checksums and limits of a listing are not looked at. Each write is a second later than the one before,
whatever the clock says: times tell what was written anew, and no test waits.
"""

import hashlib
import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer  # HTTPServer would look up the name of the machine
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

_XMLNS = "http://s3.amazonaws.com/doc/2006-03-01/"
Objects = dict[str, tuple[bytes, datetime]]  # what they hold, and when it was written
_WORDS = ("delete", "list-type", "partNumber", "uploadId", "uploads")  # of a query, that say what is to be done
_REFUSALS = {
    "AccessDenied": (403, "Access Denied"),
    "BucketNotEmpty": (409, "The bucket you tried to delete is not empty"),
    "InvalidAccessKeyId": (403, "The AWS Access Key Id you provided does not exist in our records."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchUpload": (404, "The specified upload does not exist."),
    "NotImplemented": (501, "A header you provided implies functionality that is not implemented"),
}


class Refused(Exception):
    """Under one of these names."""


class S3Server(ThreadingTCPServer):
    """What is stored, and who may have it; a test may change both between requests.

    Attributes:
        buckets: Objects by key.
        uploads: Parts of unfinished uploads by number.
        known: Ids of the keys that the server knows.
        allowed: Whether their owners may do anything.
        after_part: Called with the bytes that are stored of an upload after each part, before its sender is told.
    """

    daemon_threads = True
    request_queue_size = 128  # a connection that finds no room in it is tried again a second later

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.address = "{}:{}".format(*self.server_address)
        self.buckets: dict[str, Objects] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.known = {"testing"}
        self.allowed = True
        self.after_part: Callable[[int], object] = lambda sent: None
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.lock = threading.Lock()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Request(BaseHTTPRequestHandler):
    """One request; its connection is closed then, so that no thread waits for another."""

    protocol_version = "HTTP/1.1"  # else a sender is not told to go on with the body
    server: S3Server

    def serve(self) -> None:
        url = urlsplit(self.path)
        self.name, _, self.key = unquote(url.path)[1:].partition("/")
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        self.asked = " ".join((self.command, *(word for word in _WORDS if word in self.query)))
        self.told: dict[str, str] = {"Connection": "close"}
        try:
            self.body = self._received()
            self._send(*self._answer())
        except ConnectionError:  # the sender is gone
            self.close_connection = True

    do_HEAD = do_GET = do_PUT = do_POST = do_DELETE = serve

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def _received(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = _joined(self.rfile)
        else:
            body = _exactly(self.rfile, int(self.headers.get("Content-Length", 0)))
        return _joined(io.BytesIO(body)) if self.headers.get("Content-Encoding") == "aws-chunked" else body

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **self.told}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def _answer(self) -> tuple[int, bytes]:
        try:
            with self.server.lock:
                self._check_access()
                body = self._of_object(self._objects()) if self.key else self._of_bucket()
        except Refused as refused:
            status, message = _REFUSALS[str(refused)]
            texts = {"Code": str(refused), "Message": message, "RequestId": "4442587FB7D0A2F9"}
            return status, _tag("Error", *(_tag(*text) for text in texts.items())).encode()
        return 204 if self.command == "DELETE" else 206 if "Content-Range" in self.told else 200, body

    def _check_access(self) -> None:
        found = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        if found and found[1] not in self.server.known:
            raise Refused("InvalidAccessKeyId")
        if not found or not self.server.allowed:
            raise Refused("AccessDenied")

    def _objects(self) -> Objects:
        if self.name not in self.server.buckets:
            raise Refused("NoSuchBucket")
        return self.server.buckets[self.name]

    def _of_bucket(self) -> bytes:
        if self.asked == "PUT":
            self.server.buckets.setdefault(self.name, {})
        objects = self._objects()
        match self.asked:
            case "GET list-type":
                return _listing(objects, self.query.get("prefix", ""), self.query.get("delimiter") or "\0")  # in no key
            case "POST delete":
                for key in _texts(self.body, "Key"):
                    objects.pop(key, None)
                return _xml("DeleteResult")
            case "DELETE" if objects:
                raise Refused("BucketNotEmpty")
            case "DELETE":
                del self.server.buckets[self.name]
            case "HEAD" | "PUT":
                pass
            case _:
                raise Refused("NotImplemented")
        return b""

    def _of_object(self, objects: Objects) -> bytes:
        match self.asked:
            case "HEAD" | "GET":
                return self._read(objects)
            case "PUT" if "x-amz-copy-source" not in self.headers:
                self._write(objects, self.body)
            case "DELETE":
                objects.pop(self.key, None)
            case "POST uploads":
                upload = f"upload-{self._tick():%j-%H%M%S}"
                self.server.uploads[upload] = {}
                return _xml("InitiateMultipartUploadResult", _tag("UploadId", upload))
            case _:
                return self._of_upload(objects, self.query.get("uploadId", ""))
        return b""

    def _of_upload(self, objects: Objects, upload: str) -> bytes:
        if upload not in self.server.uploads:
            raise Refused("NoSuchUpload" if upload else "NotImplemented")
        parts = self.server.uploads[upload]
        match self.asked:
            case "PUT partNumber uploadId":
                parts[int(self.query["partNumber"])] = self.body
                self.told["ETag"] = _etag(self.body)
                self.server.after_part(sum(map(len, parts.values())))
            case "POST uploadId":
                self._write(objects, b"".join(parts[int(number)] for number in _texts(self.body, "PartNumber")))
                del self.server.uploads[upload]
                return _xml("CompleteMultipartUploadResult", _tag("Key", escape(self.key)))
            case "DELETE uploadId":
                del self.server.uploads[upload]
            case _:
                raise Refused("NotImplemented")
        return b""

    def _read(self, objects: Objects) -> bytes:
        if self.key not in objects:
            raise Refused("NoSuchKey")
        content, written = objects[self.key]
        self.told |= {"Last-Modified": format_datetime(written, usegmt=True), "ETag": _etag(content)}
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not found:
            return content
        first, end = int(found[1]), min(int(found[2]) + 1, len(content))
        if first >= end:
            raise Refused("InvalidRange")
        self.told["Content-Range"] = f"bytes {first}-{end - 1}/{len(content)}"
        return content[first:end]

    def _write(self, objects: Objects, content: bytes) -> None:
        objects[self.key] = content, self._tick()
        self.told["ETag"] = _etag(content)

    def _tick(self) -> datetime:
        self.server.time += timedelta(seconds=1)
        return self.server.time


def _exactly(stream: io.BufferedIOBase, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise ConnectionError
    return content


def _joined(stream: io.BufferedIOBase) -> bytes:
    """What was sent in chunks, by the rules of HTTP or by those of S3, which add signatures and checksums."""
    chunks: list[bytes] = []
    while line := stream.readline():
        size = int(line.split(b";")[0], 16)
        chunks.append(_exactly(stream, size))
        while stream.readline().strip():  # the end of a chunk, or checksums after the last
            pass
        if not size:
            return b"".join(chunks)
    raise ConnectionError


def _listing(objects: Objects, prefix: str, delimiter: str) -> bytes:
    """Keys under a prefix; all that are the same as far as the next delimiter are one entry."""
    entries = {}
    for key in sorted(key for key in objects if key.startswith(prefix)):
        name, further, _ = key.removeprefix(prefix).partition(delimiter)
        entry, (content, written) = escape(prefix + name + further), objects[key]
        facts = {"Key": entry, "LastModified": f"{written:%Y-%m-%dT%H:%M:%S.000Z}", "Size": str(len(content))}
        own = _tag("Contents", *(_tag(*fact) for fact in facts.items()))
        entries[entry] = _tag("CommonPrefixes", _tag("Prefix", entry)) if further else own
    return _xml("ListBucketResult", _tag("IsTruncated", "false"), *entries.values())


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _texts(xml: bytes, tag: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(xml).iter(f"{{{_XMLNS}}}{tag}")]  # noqa: S314  # pyarrow's


def _tag(name: str, *inside: str) -> str:
    return f"<{name}>{''.join(inside)}</{name}>"


def _xml(name: str, *inside: str) -> bytes:
    return f'<?xml version="1.0"?><{name} xmlns="{_XMLNS}">{"".join(inside)}</{name}>'.encode()
