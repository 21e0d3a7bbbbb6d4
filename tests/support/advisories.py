"""A FAKE advisory service on loopback: it speaks the OSV protocol that uv asks with, and knows what a test tells it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeAdvisories:
    """Faults: `down` (every connection is cut), `500`, `garbage` (HTTP 200 with something that is no answer)."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.faults: set[str] = set()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                return

            def do_POST(self) -> None:
                queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
                pairs = [(query["package"]["name"], query["version"]) for query in queries]
                fake.asked += pairs
                fake._send(self, {"results": [fake._short(pair) for pair in pairs]})

            def do_GET(self) -> None:
                wanted = self.path.rsplit("/", 1)[-1]
                every = (one for found in fake.known.values() for one in found)
                fake._send(self, next(one for one in every if one["id"] == wanted))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def knows(
        self, name: str, version: str, id: str, *, aliases: tuple[str, ...] = (), fixed: str | None = None
    ) -> None:
        events = [{"introduced": "0"}, *([{"fixed": fixed}] if fixed else [])]
        affected = {
            "package": {"name": name, "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": events}],
            "versions": [version],
        }
        told = {"id": id, "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z"}
        entry = {**told, "aliases": list(aliases), "summary": f"{name} does it wrong", "affected": [affected]}
        self.known.setdefault((name, version), []).append(entry)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _short(self, pair: tuple[str, str]) -> dict[str, Any]:
        found = self.known.get(pair, [])
        return {"vulns": [{"id": one["id"], "modified": one["modified"]} for one in found]} if found else {}

    def _send(self, request: BaseHTTPRequestHandler, answer: object) -> None:
        if "down" in self.faults:
            request.close_connection = True
            request.connection.close()
            return
        body = b"<html>welcome to the hotel" if "garbage" in self.faults else json.dumps(answer).encode()
        request.send_response(500 if "500" in self.faults else 200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


@contextmanager
def advising() -> Iterator[FakeAdvisories]:
    """Run the fake for the block."""
    fake = FakeAdvisories()
    try:
        yield fake
    finally:
        fake.close()
