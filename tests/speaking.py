"""HTTP to a daemon, where whatever it answers is held against docs/openapi.json."""

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
from tests.load import scaled

BASE_URL = "http://sm"
_TIMEOUT_S = 60.0  # more than the daemon may wait for anything: a hang has a name


class Speaker:
    """A caller of the daemon at `path`. `heard`: how often each route answered, by its operationId and status."""

    def __init__(self, path: Path | str, token: str | None = None) -> None:
        self.heard: Counter[tuple[str, int]] = Counter()
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, no .netrc
        self._session.mount(BASE_URL, _Adapter(str(path)))
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self._session.close()

    def get(self, path: str, /, ref: object = None, **query: Any) -> Any:
        """What is answered, which must be a success. `path` as in the document."""
        return self._done(self.ask("get", path, _filled(path, ref), params=query))

    def post(self, path: str, /, ref: object = None, *, key: str | None = None, **body: Any) -> Any:
        headers = {} if key is None else {KEY_HEADER: key}
        return self._done(self.ask("post", path, _filled(path, ref), json=body, headers=headers))

    def refused(self, path: str, /, ref: object = None, **body: Any) -> Any:
        """What a POST is refused with."""
        answer = self.ask("post", path, _filled(path, ref), json=body)
        assert answer.status_code >= 400, answer.text
        return answer.json()["error"]

    def first_event(self, **query: Any) -> str:
        """The stream, until it has told something."""
        with self.ask("get", "/v1/events/stream", "/v1/events/stream", params=query) as answer:
            return str(next(answer.iter_content(None)).decode())

    def _done(self, answer: requests.Response) -> Any:
        assert answer.status_code == 200, f"{answer.request.method} {answer.url}: {answer.text}"
        return answer.json()

    def ask(self, method: str, path: str, filled: str, **more: Any) -> requests.Response:
        return self.send(path, **{"method": method, "url": BASE_URL + filled, **more})

    def send(self, path: str, **request: Any) -> requests.Response:
        """Any request to the route at `path`, as `requests` takes it. AssertionError for what is not as documented."""
        answer = self._session.request(
            **{"timeout": scaled(_TIMEOUT_S), "allow_redirects": False, "stream": True, **request}
        )
        method = str(request["method"]).lower()
        self.heard[operation(method, path)["operationId"], answer.status_code] += 1
        check(method, path, answer)
        return answer


def check(method: str, path: str, answer: requests.Response) -> None:
    """Raises AssertionError where the answer is not what the document says of this route, or a defect of ours."""
    done = answer.status_code < 400
    who = "agent" if "Authorization" in answer.request.headers else "operator"
    told = f"{who}: {answer.request.method} {answer.url} {answer.request.body!r}: {answer.status_code}"
    assert answer.headers[PROTOCOL_HEADER] == str(PROTOCOL), told
    type = answer.headers["Content-Type"]
    if done and "text/event-stream" in operation(method, path)["responses"]["200"]["content"]:
        assert type == "text/event-stream", told
        return
    assert type == "application/json", f"{told} {answer.text}"
    assert answer.status_code == 200 or not done, told
    wrong = [f"{e.instance_path}: {e.message}" for e in schema(method, path, done).iter_errors(answer.json())]
    assert not wrong, f"{told} {answer.text}\n" + "\n".join(wrong)
    assert done or answer.json()["error"]["code"] not in ("bug", "error"), f"{told} {answer.text}"
    assert answer.status_code != 500, told


@cache
def _document() -> dict[str, Any]:
    return document()


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = _document()["paths"][path][method]
    return found


@cache
def schema(method: str, path: str, done: bool) -> jsonschema_rs.Draft202012Validator:
    """What an answer of this route must be, and nothing besides."""
    if done:
        content = operation(method, path)["responses"]["200"]["content"]
    else:
        content = _document()["components"]["responses"]["Error"]["content"]
    schemas = {
        name: closed(each, outermost=False) for name, each in _document()["components"]["schemas"].items()
    }
    whole = {**closed(content["application/json"]["schema"]), "components": {"schemas": schemas}}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def closed(value: Any, *, outermost: bool = True) -> Any:
    """The schema, but that an object may have no fields that it does not name.

    `outermost` False: a component, or a part of an `allOf`. What refers to it knows what else there may be.
    """
    if isinstance(value, list):
        return [closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: closed(each) for name, each in value.items()}
    if "allOf" in value:
        made["allOf"] = [closed(each, outermost=False) for each in value["allOf"]]
    if "properties" in value:
        made["properties"] = {name: closed(each) for name, each in value["properties"].items()}
    if outermost and not {"properties", "allOf", "$ref"}.isdisjoint(value):
        made["unevaluatedProperties"] = False
    return made


def _filled(path: str, ref: object) -> str:
    before, brace, after = path.partition("{")
    return before + (f"{ref}" + after.partition("}")[2] if brace else "")


class _Connection(HTTPConnection):
    socket_path = ""

    def _new_conn(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(scaled(_TIMEOUT_S))
        made.connect(self.socket_path)
        return made


class _Adapter(HTTPAdapter):
    """Carries HTTP over one Unix socket, whatever host is asked for."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = HTTPConnectionPool("sm")
        self._pool.ConnectionCls = type("Connection", (_Connection,), {"socket_path": path})

    def get_connection_with_tls_context(self, *request: Any, **more: Any) -> HTTPConnectionPool:
        return self._pool

    def close(self) -> None:
        self._pool.close()
