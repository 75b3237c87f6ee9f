"""A receiver of webhooks on 127.0.0.1. It keeps every request and answers as configured."""

import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import orjson


@dataclass(frozen=True, slots=True)
class Received:
    """A received request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        body: dict[str, Any] = orjson.loads(self.body)
        return body

    @property
    def delivery(self) -> str:
        return self.headers["SM-Delivery"]


class Receiver:
    """A real HTTP server in its own thread, used as a context manager.

    It answers with the statuses of `answers` in order, then with `answer`. After `hang` it answers no requests until
    `go_on`. With `drips` it sends the head of a response but never the body. With `tls` it speaks HTTPS.
    """

    def __init__(self, port: int = 0, *, answer: int = 204, tls: ssl.SSLContext | None = None) -> None:
        self.got: list[Received] = []
        self.answers: list[int] = []
        self.answer = answer
        self.location: str | None = None
        self.drips = False
        self._go_on = threading.Event()
        self._go_on.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._scheme = "http"
        if tls is not None:
            self._scheme, self._server.socket = (
                "https",
                tls.wrap_socket(self._server.socket, server_side=True),
            )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/hook") -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}{path}"

    def hang(self) -> None:
        self._go_on.clear()

    def go_on(self) -> None:
        self._go_on.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_on()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(Received(self.path, dict(self.headers.items()), body))
                receiver._go_on.wait()
                try:
                    self.send_response(receiver.answers.pop(0) if receiver.answers else receiver.answer)
                    if receiver.location is not None:
                        self.send_header("Location", receiver.location)
                    self.send_header("Content-Length", "10" if receiver.drips else "0")
                    self.end_headers()
                    if receiver.drips:
                        self.wfile.flush()
                        self.rfile.read(1)  # wait until the client disconnects
                except ConnectionError:
                    pass  # the client disconnected early

            do_GET = do_POST  # noqa: N815 - http.server's name; a client that follows a redirect sends GET

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        return Handler
