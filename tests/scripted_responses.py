"""A scripted Responses API on 127.0.0.1: the model of a real codex in tests.

The last text of the user decides: `[[run CMD]]` runs a command, `[[ask CMD]]` runs one that needs an approval,
`[[hang]]` answers only when the test lets it, `[[fail]]` is an error of the request, and any other text is repeated.
After the result of a tool the model says "Done.".
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_DIRECTIVE = re.compile(r"\[\[(run|ask|hang|fail) ?(.*?)\]\]", re.DOTALL)
_CONFIG = """
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}


class ScriptedResponses:
    """The API, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.texts: list[str] = []
        """The texts of the user in the newest request, in their order."""
        self.released = threading.Event()
        """Lets the answers to `[[hang]]` end."""

    def configure(self, home: Path) -> None:
        """Make a home of codex that knows only this model."""
        home.mkdir()
        (home / "config.toml").write_text(_CONFIG.format(port=self.port))

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The item with which the model answers, or None for an error."""
        self.texts = [text for item in request["input"] for text in _user_texts(item)]
        if request["input"][-1].get("type") == "function_call_output":
            return _message("Done.")
        found = _DIRECTIVE.search(self.texts[-1])
        match found and found[1]:
            case "fail":
                return None
            case "hang":
                self.released.wait()
                return _message("late")
            case "run" | "ask" as kind:
                assert found is not None
                asks = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
                arguments = {"cmd": found[2], **(asks if kind == "ask" else {})}
                call = {"type": "function_call", "id": f"f{len(request['input'])}", "name": "exec_command"}
                return {
                    **call,
                    "call_id": f"call-{len(request['input'])}",
                    "arguments": json.dumps(arguments),
                }
            case _:
                return _message(self.texts[-1])


def _user_texts(item: dict[str, Any]) -> list[str]:
    is_user = item.get("type") == "message" and item.get("role") == "user"
    return [part["text"] for part in item["content"] if "text" in part] if is_user else []


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "id": "m", "content": content}


class _Handler(BaseHTTPRequestHandler):
    api: ScriptedResponses

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, "application/json", b'{"models": []}')

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        item = self.api.answer(request)
        if item is None:
            self._send(400, "application/json", b'{"error": {"message": "refused by the script"}}')
            return
        events = (
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": "r", "usage": _USAGE}},
        )
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send(200, "text/event-stream", lines.encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # the turn was interrupted


@contextmanager
def scripted_responses() -> Iterator[ScriptedResponses]:
    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.api = api = ScriptedResponses(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield api
        finally:
            api.released.set()
            server.shutdown()
            thread.join()
