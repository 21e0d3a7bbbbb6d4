"""A package index on loopback, with the faults that real ones have, switched on by name."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name

JSON_TYPE = "application/vnd.pypi.simple.v1+json"


class LoopbackIndex:
    """Serves the wheels of a folder as PEP 503 and PEP 691; `faults` and `requests` may be looked at while it runs.

    Faults: `down` (every connection is cut), `500`, `slow` (`delay` seconds a request), `stall` (takes a request
    and never answers), `stall-files` (half of a file, then silence), `trickle` (a file in small pieces), `no-ranges` (whole files only), and by file name in `wrong_hash`
    (the page tells another hash), `altered` (other bytes than the page tells), `truncated`, `vanished` (listed, not
    served), `yanked`. `metadata` serves PEP 658 files; `login` asks for basic auth.
    """

    def __init__(self, folder: Path, *, metadata: bool = False, login: tuple[str, str] | None = None) -> None:
        self.folder = folder
        self.metadata = metadata
        self.login = login
        self.faults: set[str] = set()
        self.delay = 0.5
        self.wrong_hash: set[str] = set()
        self.altered: set[str] = set()
        self.truncated: set[str] = set()
        self.vanished: set[str] = set()
        self.yanked: set[str] = set()
        self.requests: list[str] = []
        self._closing = threading.Event()
        self.unauthorised = 0
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                return

            def do_GET(self) -> None:
                index._answer(self)

            def do_HEAD(self) -> None:
                index._answer(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The simple API's root; with the login in it when there is one."""
        user = f"{self.login[0]}:{self.login[1]}@" if self.login else ""
        return f"http://{user}127.0.0.1:{self._server.server_address[1]}/simple"

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(request.path)
        if "down" in self.faults:
            request.close_connection = True
            request.connection.close()
            return
        if "slow" in self.faults:
            time.sleep(self.delay)
        if "stall" in self.faults:
            self._silence(request)
            return
        if "500" in self.faults:
            self._send(request, 500, b"broken", "text/plain")
            return
        if self.login:
            token = base64.b64encode(":".join(self.login).encode()).decode()
            if request.headers.get("Authorization") != f"Basic {token}":
                self.unauthorised += 1
                self._send(request, 401, b"who are you?", "text/plain")
                return
        parts = [unquote(part) for part in request.path.split("?")[0].strip("/").split("/")]
        if parts[0] == "simple" and len(parts) == 2:
            self._page(request, parts[1])
        elif parts[0] == "files" and len(parts) == 2:
            self._file(request, parts[1])
        else:
            self._send(request, 404, b"no such page", "text/plain")

    def _silence(self, request: BaseHTTPRequestHandler) -> None:
        """Keep a connection open and say nothing, until the other side has enough or the index is closed."""
        request.close_connection = True
        self._closing.wait(60)

    def _wheels(self, name: str) -> list[Path]:
        found = [*self.folder.glob("*.whl"), *self.folder.glob("*.tar.gz")]
        return sorted(path for path in found if canonicalize_name(path.name.split("-")[0]) == canonicalize_name(name))

    def _page(self, request: BaseHTTPRequestHandler, name: str) -> None:
        wheels = self._wheels(name)
        if not wheels:
            self._send(request, 404, b"no such project", "text/plain")
            return
        rows = []
        for path in wheels:
            content = path.read_bytes()
            digest = hashlib.sha256(b"another file" if path.name in self.wrong_hash else content).hexdigest()
            rows.append((path.name, digest, len(content)))
        if JSON_TYPE in request.headers.get("Accept", ""):
            document = {
                "meta": {"api-version": "1.1"},
                "name": name,
                "versions": sorted({row[0].split("-")[1] for row in rows}),
                "files": [
                    {
                        "filename": file,
                        "url": f"../../files/{quote(file)}",
                        "hashes": {"sha256": digest},
                        "size": size,
                        "yanked": "broken build" if file in self.yanked else False,
                        "core-metadata": self.metadata,
                    }
                    for file, digest, size in rows
                ],
            }
            self._send(request, 200, json.dumps(document).encode(), JSON_TYPE)
            return
        links = "".join(
            f'<a href="../../files/{quote(file)}#sha256={digest}"{self._mark(file)}>{html.escape(file)}</a>\n'
            for file, digest, _ in rows
        )
        self._send(request, 200, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")

    def _mark(self, file: str) -> str:
        return ' data-yanked="broken build"' if file in self.yanked else ""

    def _file(self, request: BaseHTTPRequestHandler, name: str) -> None:
        if name.endswith(".metadata"):
            wheel = self.folder / name.removesuffix(".metadata")
            if self.metadata and wheel.is_file():
                self._send(request, 200, _metadata(wheel), "application/octet-stream")
            else:
                self._send(request, 404, b"none", "text/plain")
            return
        path = self.folder / name
        if name in self.vanished or not path.is_file():
            self._send(request, 404, b"gone", "text/plain")
            return
        content = path.read_bytes()
        if name in self.altered:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if name in self.truncated:
            request.send_response(200)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content[: len(content) // 2])
            request.close_connection = True
            return
        if self.faults & {"stall-files", "trickle"}:
            request.send_response(200)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            if "stall-files" in self.faults:
                request.wfile.write(content[: len(content) // 2])
                request.wfile.flush()
                self._silence(request)
                return
            for start in range(0, len(content), 100):
                request.wfile.write(content[start : start + 100])
                request.wfile.flush()
                time.sleep(0.2)
            return
        asked = request.headers.get("Range")
        if asked and "no-ranges" not in self.faults:
            first, last = asked.removeprefix("bytes=").split("-")
            start = int(first) if first else len(content) - int(last)
            end = int(last) if last and first else len(content) - 1
            part = content[start : end + 1]
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(content)}")
            request.send_header("Content-Length", str(len(part)))
            request.end_headers()
            request.wfile.write(part)
            return
        self._send(request, 200, content, "application/octet-stream", ranges=True)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str, *, ranges: bool = False
    ) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        if ranges:
            request.send_header("Accept-Ranges", "bytes")
        if status == 401:
            request.send_header("WWW-Authenticate", 'Basic realm="index"')
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[LoopbackIndex]:
    """Run an index for the block."""
    index = LoopbackIndex(folder, **options)
    try:
        yield index
    finally:
        index.close()
