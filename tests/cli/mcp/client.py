"""An MCP client that talks to `sm mcp` line by line, and answers of a scripted daemon for it."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.cli.peer import Answer, ReceivedRequest, answer, chunked

ROUTE = "POST /v1/mcp"


class PumpClient:
    """The process `sm mcp`. Its stdout is read in a thread, from the first `read` on."""

    starts_processes = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sm.cli", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader: threading.Thread | None = None

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def call(self, tool: str, number: int | str = 1, **arguments: Any) -> None:
        self.send(request("tools/call", number, {"name": tool, "arguments": arguments}))

    def read(self) -> Any:
        """The next message on stdout."""
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        line = self._lines.get()
        assert line, "stdout has ended"
        return json.loads(line)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> tuple[int, str]:
        """Close stdin, wait for the end, and return the exit code and stderr."""
        self.close_stdin()
        code = self.process.wait()
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self._reader is not None:
            self._reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def request(method: str, number: object = 1, params: object = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response(to: Any, result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": to["id"], "result": result}


ACCEPTED = b"HTTP/1.1 202 Accepted\r\nSM-Protocol: 1\r\nContent-Length: 0\r\n\r\n"
VERSION = "2025-11-25"


def echo(received: ReceivedRequest) -> bytes | None:
    """An answer: the parameters of the request, as its result. A notification is accepted."""
    message = received.json
    if "id" not in message:
        return ACCEPTED
    if message["method"] == "initialize":
        return answer(response(message, {"protocolVersion": VERSION}))
    return answer(response(message, message.get("params", {})))


def stream(*messages: object, end: bool = True) -> bytes:
    """An answer: an event stream with the messages."""
    events = [b"event: message\ndata: %b\n\n" % json.dumps(message).encode() for message in messages]
    whole = chunked(*events, end=end)
    return whole.replace(b"SM-Protocol: 1\r\n", b"SM-Protocol: 1\r\nContent-Type: text/event-stream\r\n")


def by_method(answers: Mapping[str, Answer]) -> Callable[[ReceivedRequest], bytes | None]:
    """An answer for each method, and `echo` for others."""

    def choose(received: ReceivedRequest) -> bytes | None:
        found = answers.get(received.json["method"], echo)
        return found(received) if callable(found) else found

    return choose
