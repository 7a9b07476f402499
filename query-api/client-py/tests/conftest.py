from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Union

import pytest

from muster_client import AsyncClient, Client

ITERATORS = ("people", "companies", "search_pages", "bulk_results")


@dataclass
class Caller:
    """Calls a method of either client by its name, and returns its result, a list for an iterator."""

    kind: str
    waits: list[float]
    """Waits before retries, which do not happen."""
    key: str = "mk_live_x"

    def __call__(
        self, url: str, method: str, /, *args: Any, client: dict[str, Any] | None = None, **request: Any
    ) -> Any:
        if self.kind == "sync":
            with Client(url, self.key, **(client or {})) as api:
                result = getattr(api, method)(*args, **request)
                return list(result) if method in ITERATORS else result
        return asyncio.run(self._call(url, method, client or {}, args, request))

    async def _call(self, url: str, method: str, client: dict[str, Any], args: Any, request: Any) -> Any:
        async with AsyncClient(url, self.key, **client) as api:
            result = getattr(api, method)(*args, **request)
            return [item async for item in result] if method in ITERATORS else await result


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Caller:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("muster_client.client.time.sleep", waits.append)
    monkeypatch.setattr("muster_client.async_client.asyncio.sleep", sleep)
    return Caller(request.param, waits)


@dataclass
class Answer:
    body: Union[bytes, str] = "{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    """Bytes of the body that the connection ends without; -1 for the whole response."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass
class Service:
    url: str
    requests: list[Request]


@contextmanager
def serve(answer: Callable[[int], Answer]) -> Iterator[Service]:
    """Serves over HTTP what answer returns for the number of the request."""
    service = Service("", [])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_call(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            service.requests.append(Request(self.command, self.path, dict(self.headers), body))
            assert len(service.requests) < 20, "the client never ends"
            given = answer(len(service.requests) - 1)
            content = given.body if isinstance(given.body, bytes) else given.body.encode()
            if given.missing < 0:
                self.close_connection = True
                return
            self.send_response(given.status)
            for name, value in {"Content-Length": str(len(content)), **given.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) - given.missing])
            self.close_connection = given.missing > 0

        do_GET = do_POST = handle_call  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        service.url = f"http://127.0.0.1:{server.server_port}"
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
