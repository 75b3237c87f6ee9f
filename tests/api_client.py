"""An HTTP client of the daemon that checks every response against docs/openapi.json."""

import json
import socket
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from sm.api.openapi import document
from sm.wire import KEY_HEADER, PROTOCOL, PROTOCOL_HEADER
from tests.waits import NEVER_S

BASE_URL = "http://sm"
_TIMEOUT_S = 60.0  # longer than any wait of the daemon, so that a time-out means a hang


class ApiClient:
    """A caller of the daemon at the socket `path`. `responses` counts responses by operationId and status."""

    def __init__(self, path: Path | str, token: str | None = None) -> None:
        self.responses: Counter[tuple[str, int]] = Counter()
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, no .netrc
        self._session.mount(BASE_URL, _Adapter(str(path)))
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self._session.close()

    def get(self, path: str, /, ref: object = None, **query: Any) -> Any:
        """The JSON of the response, which must be a success. `path` as in the document."""
        return self._done(self.ask("get", path, _filled(path, ref), params=query))

    def post(self, path: str, /, ref: object = None, *, key: str | None = None, **body: Any) -> Any:
        headers = {} if key is None else {KEY_HEADER: key}
        return self._done(self.ask("post", path, _filled(path, ref), json=body, headers=headers))

    def upload(self, path: str, /, content: bytes, **query: Any) -> Any:
        return self._done(self.ask("post", path, path, data=content, params=query))

    def delete(self, path: str, /, ref: object) -> Any:
        return self._done(self.ask("delete", path, _filled(path, ref)))

    def refused(self, path: str, /, ref: object = None, **body: Any) -> Any:
        """The error of a POST that must fail."""
        answer = self.ask("post", path, _filled(path, ref), json=body)
        assert answer.status_code >= 400, answer.text
        return answer.json()["error"]

    def first_event(self, path: str, /, ref: object = None, **query: Any) -> Any:
        """The first event of a stream."""
        with self.ask("get", path, _filled(path, ref), params=query) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith(b"data: "))
            return json.loads(next(lines).removeprefix(b"data: "))

    def _done(self, answer: requests.Response) -> Any:
        assert answer.ok, f"{answer.request.method} {answer.url}: {answer.text}"
        return answer.json()

    def ask(self, method: str, path: str, filled: str, **more: Any) -> requests.Response:
        return self.send(path, **{"method": method, "url": BASE_URL + filled, **more})

    def send(self, path: str, **request: Any) -> requests.Response:
        """Send a request (arguments as of `requests`) to the route at `path`. Raises AssertionError as `check` does."""
        answer = self._session.request(
            **{"timeout": NEVER_S, "allow_redirects": False, "stream": True, **request}
        )
        method = str(request["method"]).lower()
        self.responses[operation(method, path)["operationId"], answer.status_code] += 1
        check(method, path, answer)
        return answer


def check(method: str, path: str, answer: requests.Response) -> None:
    """Raises AssertionError for a response that the document does not allow for this route, or an internal error."""
    done = answer.status_code < 400
    who = "agent" if "Authorization" in answer.request.headers else "operator"
    label = f"{who}: {answer.request.method} {answer.url} {answer.request.body!r}: {answer.status_code}"
    assert answer.headers[PROTOCOL_HEADER] == str(PROTOCOL), label
    responses = operation(method, path)["responses"]
    if str(answer.status_code) in responses and "content" not in responses[str(answer.status_code)]:
        assert not answer.content, label
        return
    type = answer.headers["Content-Type"]
    if done and type == "text/event-stream":
        assert type in responses["200"]["content"], label
        return
    assert type == "application/json", f"{label} {answer.text}"
    assert not done or answer.status_code == success(method, path), label
    wrong = [f"{e.instance_path}: {e.message}" for e in schema(method, path, done).iter_errors(answer.json())]
    assert not wrong, f"{label} {answer.text}\n" + "\n".join(wrong)
    assert done or answer.json()["error"]["code"] not in ("bug", "error"), f"{label} {answer.text}"
    assert answer.status_code != 500, label


@cache
def _document() -> dict[str, Any]:
    return document()


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = _document()["paths"][path][method]
    return found


def success(method: str, path: str) -> int:
    """The status of a success."""
    return 201 if "201" in operation(method, path)["responses"] else 200


@cache
def schema(method: str, path: str, done: bool) -> jsonschema_rs.Draft202012Validator:
    """The schema of this route's responses, with no undocumented fields allowed."""
    if done:
        content = operation(method, path)["responses"][str(success(method, path))]["content"]
    else:
        content = _document()["components"]["responses"]["Error"]["content"]
    schemas = {
        name: closed(component, outermost=False)
        for name, component in _document()["components"]["schemas"].items()
    }
    complete = {**closed(content["application/json"]["schema"]), "components": {"schemas": schemas}}
    return jsonschema_rs.Draft202012Validator(complete, validate_formats=True)


def closed(value: Any, *, outermost: bool = True) -> Any:
    """The schema, changed so that objects allow no undocumented fields.

    `outermost` is False for a component or a part of an `allOf`, where the referring schema closes the object.
    """
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {name: closed(item) for name, item in value.items()}
    if "allOf" in value:
        result["allOf"] = [closed(part, outermost=False) for part in value["allOf"]]
    if "properties" in value:
        result["properties"] = {name: closed(item) for name, item in value["properties"].items()}
    if outermost and not {"properties", "allOf", "$ref"}.isdisjoint(value):
        result["unevaluatedProperties"] = False
    return result


def _filled(path: str, ref: object) -> str:
    before, brace, after = path.partition("{")
    return before + (f"{ref}" + after.partition("}")[2] if brace else "")


class _Connection(HTTPConnection):
    socket_path = ""

    def _new_conn(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(None)
        connection.connect(self.socket_path)
        return connection


class _Adapter(HTTPAdapter):
    """Carries HTTP over one Unix socket, for any host name."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = HTTPConnectionPool("sm")
        self._pool.ConnectionCls = type("Connection", (_Connection,), {"socket_path": path})

    def get_connection_with_tls_context(self, *request: Any, **more: Any) -> HTTPConnectionPool:
        return self._pool

    def close(self) -> None:
        self._pool.close()
