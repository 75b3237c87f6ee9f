"""A GitHub on loopback for the real gh: the part of the APIs that gh asks for `sm pr`, behind a proxy of its own.

gh speaks only https to port 443. The proxy answers each connection itself, with the certificate of tests/tls.py.
"""

import io
import json
import re
import ssl
import threading
import zipfile
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from tests.tls import tls_file

HOST = "sm.example.net"
REPOSITORY = f"https://{HOST}/octo/app"
PAGE = f"{REPOSITORY}/pull/12"
TOKEN = "local"
RUN, JOB = 3, 5
LOG = (
    "\ufeff2026-01-01T10:00:00.1234567Z ##[group]Run pytest\n"
    "2026-01-01T10:00:01.1234567Z \x1b[31mE   assert 1 == 2\x1b[0m\n"
    "2026-01-01T10:00:02.1234567Z ##[error]Process completed with exit code 1.\n"
)
_CLEAN_UP = "2026-01-01T10:00:03.1234567Z Post job cleanup.\n"
_AT = "2026-01-01T10:00:00Z"
_LAST_PAGE = {"hasNextPage": False, "endCursor": ""}

Answer = tuple[int, Any]
"""A status of HTTP, and a value for JSON or the bytes of a file."""


class LocalGitHub:
    """`with LocalGitHub(directory) as github` serves until the end of the block. The fields may change meanwhile."""

    def __init__(self, directory: Path) -> None:
        self.failure: Answer | None = None
        """The answer to every call, if it is set."""
        self.parent: Mapping[str, Any] | None = None
        """The repository of which octo/app is a fork."""
        self.state = "OPEN"
        self.goes_on = False
        """True while other jobs of the run of the failed check go on."""
        self.created: list[Mapping[str, Any]] = []
        """The input of each call that created a pull request."""
        self.unknown: list[str] = []
        """Calls without an answer."""
        self._certificate = tls_file(directory, "cert.pem")
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self._certificate, tls_file(directory, "key.pem"))

    def __enter__(self) -> Self:
        handler = type("BoundGitHubConnection", (GitHubConnection,), {"github": self, "tls": self._tls})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which gh reaches this server, with a token that it accepts."""
        proxy = f"http://127.0.0.1:{self._server.server_port}"
        return {"HTTPS_PROXY": proxy, "SSL_CERT_FILE": str(self._certificate), "GH_ENTERPRISE_TOKEN": TOKEN}

    def answer(self, path: str, token: str, body: bytes) -> Answer:
        if self.failure is not None:
            return self.failure
        if token != TOKEN:
            return 401, {"message": "Bad credentials"}
        place = urlsplit(path).path
        if place == "/api/graphql":
            asked = json.loads(body)
            return 200, self._graphql(asked["query"], asked.get("variables") or {})
        return self._rest(place.removeprefix("/api/v3"))

    def _graphql(self, query: str, given: Mapping[str, Any]) -> Any:
        if "createPullRequest" in query:
            self.created.append(given["input"])
            data: Any = {"createPullRequest": {"pullRequest": {"id": "PR_1", "url": PAGE}}}
        elif "__type(" in query:  # gh asks which fields this version of the server has
            data = {name: {"fields": []} for name in re.findall(r"(\w+): *__type", query)}
        elif "viewer{" in query:
            data = {"viewer": {"login": "me"}}
        elif "pullRequests(" in query:
            found = {"totalCount": 0, "nodes": [], "pageInfo": _LAST_PAGE}
            data = {"repository": {"pullRequests": found, "defaultBranchRef": {"name": "main"}}}
        elif "pullRequest(" in query:
            data = {"repository": {"pullRequest": self._pull_request()}}
        elif "repository(" in query:
            data = {"repository": self._repository(given)}
        else:
            self.unknown.append(query)
            return {"data": None, "errors": [{"message": "unknown query"}]}
        return {"data": data}

    def _repository(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        has_parent = given["owner"] == "octo" and self.parent is not None
        return {
            "id": f"R_{given['owner']}",
            "name": given["name"],
            "owner": {"id": "O_1", "login": given["owner"]},
            "isFork": has_parent,
            "parent": self.parent if has_parent else None,
            "viewerPermission": "WRITE",
            "hasIssuesEnabled": True,
            "defaultBranchRef": {"name": "main"},
        }

    def _pull_request(self) -> Mapping[str, Any]:
        check = {
            "__typename": "CheckRun",
            "name": "unit",
            "checkSuite": {"workflowRun": {"workflow": {"name": "ci"}}},
            "status": "COMPLETED",
            "conclusion": "FAILURE",
            "startedAt": _AT,
            "completedAt": _AT,
            "detailsUrl": f"{REPOSITORY}/actions/runs/{RUN}/job/{JOB}",
        }
        others = [
            {**check, "name": "slow", "status": "IN_PROGRESS", "conclusion": None, "completedAt": None},
            {
                "__typename": "StatusContext",
                "context": "deploy",
                "state": "PENDING",
                "targetUrl": "",
                "createdAt": _AT,
            },
        ]
        rollup = {"contexts": {"nodes": [check, *others], "pageInfo": _LAST_PAGE}}
        return {
            "id": "PR_1",
            "number": 12,
            "state": self.state,
            "closedAt": None if self.state == "OPEN" else _AT,
            "headRefOid": "4b" * 20,
            "statusCheckRollup": {"nodes": [{"commit": {"statusCheckRollup": rollup}}]},
            "reviews": _page(
                [_said("PRR_1", "Please change this", state="CHANGES_REQUESTED", submittedAt=_AT)]
            ),
            "comments": _page([_said("IC_1", "spam", isMinimized=True), _said("IC_2", "Nice")]),
        }

    def _rest(self, place: str) -> Answer:
        if not place.startswith("/repos/octo/app/"):
            return 200, {"installed_version": "3.20.0"}  # what gh asks of a server first
        match place.removeprefix("/repos/octo/app/").split("/"):
            case ["pulls", "12", "reviews"]:
                return 200, [{"id": 44, "node_id": "PRR_1"}]
            case ["pulls", "12", "reviews", "44", "comments"]:
                return 200, [
                    {"path": "api/a.txt", "line": 1, "diff_hunk": "@@ -0,0 +1 @@\n+a", "body": "why?"}
                ]
            case ["actions", "jobs", _]:
                return 200, _job()
            case ["actions", "jobs", _, "logs"]:
                return 200, f"{LOG}{_CLEAN_UP}".encode()
            case ["actions", "runs", _]:
                return 200, self._run()
            case ["actions", "runs", _, "jobs"] | ["actions", "runs", _, "attempts", _, "jobs"]:
                return 200, {"total_count": 1, "jobs": [_job()]}
            case ["actions", "runs", _, "logs"] | ["actions", "runs", _, "attempts", _, "logs"]:
                return (404, {"message": "Not Found"}) if self.goes_on else (200, _logs())
            case ["actions", "workflows", _]:
                return 200, {"id": 9, "name": "ci", "path": ".github/workflows/ci.yml", "state": "active"}
            case _:
                self.unknown.append(place)
                return 404, {"message": "Not Found"}

    def _run(self) -> Mapping[str, Any]:
        return {
            "id": RUN,
            "name": "ci",
            "workflow_id": 9,
            "run_attempt": 1,
            "status": "in_progress" if self.goes_on else "completed",
            "conclusion": None if self.goes_on else "failure",
            "created_at": _AT,
            "updated_at": _AT,
            "run_started_at": _AT,
            "url": f"https://{HOST}/api/v3/repos/octo/app/actions/runs/{RUN}",
            "jobs_url": f"https://{HOST}/api/v3/repos/octo/app/actions/runs/{RUN}/jobs",
            "html_url": f"{REPOSITORY}/actions/runs/{RUN}",
        }


def _page(nodes: Sequence[Any]) -> Mapping[str, Any]:
    return {"nodes": nodes, "pageInfo": _LAST_PAGE, "totalCount": len(nodes)}


def _said(id: str, body: str, **more: Any) -> Mapping[str, Any]:
    return {"id": id, "author": {"login": "alice"}, "body": body, "createdAt": _AT, **more}


def _job() -> Mapping[str, Any]:
    steps = [
        {"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1},
        {"name": "Run pytest", "status": "completed", "conclusion": "failure", "number": 2},
    ]
    return {
        "id": JOB,
        "run_id": RUN,
        "name": "unit",
        "status": "completed",
        "conclusion": "failure",
        "started_at": _AT,
        "completed_at": _AT,
        "html_url": f"{REPOSITORY}/actions/runs/{RUN}/job/{JOB}",
        "steps": steps,
    }


def _logs() -> bytes:
    """The archive with the logs of a run, one file for each step."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("unit/1_Set up job.txt", "2026-01-01T09:00:00.1234567Z set up\n")
        archive.writestr("unit/2_Run pytest.txt", LOG)
        archive.writestr("0_unit.txt", LOG)
    return file.getvalue()


class GitHubConnection(BaseHTTPRequestHandler):
    """A connection of gh to the proxy, which goes on as one to GitHub."""

    github: ClassVar[LocalGitHub]
    tls: ClassVar[ssl.SSLContext]
    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = False
        with self.tls.wrap_socket(self.connection, server_side=True) as inner:
            self.rfile, self.wfile = inner.makefile("rb"), inner.makefile("wb")
            while not self.close_connection:
                self.handle_one_request()
        self.close_connection = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").partition(" ")[2]
        status, value = self.github.answer(self.path, token, body)
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(value, bytes) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""
