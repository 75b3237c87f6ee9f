"""Reads the checks, reviews and comments of a pull request from what gh prints. Pure: anybody may have written them."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sm.capabilities.pull_requests.model import NAME_MAX, PullRequestState, ReportKind
from sm.core.dataclass import dataclass
from sm.core.text import folded

VIEWED = "state,closedAt,headRefOid,statusCheckRollup,reviews,comments"
"""The fields of `gh pr view` that this module reads."""
_FAILED = frozenset({"failure", "error", "timed_out", "startup_failure", "action_required"})
_RUN = re.compile(r"https?://[!-~]+/actions/runs/([1-9]\d{0,18})(?:/job/([1-9]\d{0,18}))?(?:[?#/].*)?")
_WORD = re.compile(r"[a-z_]{1,40}")
_ENTRIES_MAX = 500


@dataclass(frozen=True, slots=True)
class PullRequestNews:
    """A finished check, a review, a comment, or another state of a pull request."""

    key: str
    """The same for the same news each time."""
    kind: ReportKind
    name: str
    """The name of the check, or of the user."""
    outcome: str
    body: str = ""
    id: str = ""
    """The id of a review at GitHub."""
    run: str | None = None
    """The id of the run of GitHub Actions that made the check."""
    job: str | None = None

    @property
    def is_failure(self) -> bool:
        return self.kind is ReportKind.CHECK and self.outcome in _FAILED


def news_of(view: Mapping[str, Any]) -> Iterator[PullRequestNews]:
    """All news of a pull request: checks, then reviews and comments, then its end. `view`: of `gh pr view`."""
    commit = _text(view, "headRefOid")
    for entry in _entries(view, "statusCheckRollup"):
        if (check := _check(entry, commit)) is not None:
            yield check
    for entry in _entries(view, "reviews"):
        outcome, id = _word(entry, "state"), _text(entry, "id")
        if outcome != "pending":
            key = _key("review", id, outcome)
            yield PullRequestNews(key, ReportKind.REVIEW, _author(entry), outcome, _text(entry, "body"), id)
    for entry in _entries(view, "comments"):
        if entry.get("isMinimized") is True:  # hidden on GitHub, for example as spam
            continue
        id = _text(entry, "id")
        key = _key("comment", id)
        yield PullRequestNews(key, ReportKind.COMMENT, _author(entry), "commented", _text(entry, "body"), id)
    state = _word(view, "state")
    if state in (PullRequestState.MERGED, PullRequestState.CLOSED):
        # One that was closed and opened again may be closed again.
        key = _key("state", state, _text(view, "closedAt"))
        yield PullRequestNews(key, ReportKind.STATE, "", state)


def _check(entry: Mapping[str, Any], commit: str) -> PullRequestNews | None:
    """A check of GitHub, or a status that another service has set. None while it runs."""
    is_run = "conclusion" in entry or "name" in entry
    outcome = _word(entry, "conclusion" if is_run else "state", empty="")
    if (
        not outcome
        or outcome in ("pending", "expected")
        or (is_run and _word(entry, "status") != "completed")
    ):
        return None
    names = (_text(entry, "workflowName"), _text(entry, "name")) if is_run else (_text(entry, "context"),)
    url = _text(entry, "detailsUrl" if is_run else "targetUrl")
    at = _text(entry, "completedAt" if is_run else "startedAt")
    name = folded(" / ".join(filter(None, names)), NAME_MAX) or "a check"
    found = _RUN.fullmatch(url)
    key = _key("check", commit, name, url, at, outcome)
    run, job = (found[1], found[2]) if found else (None, None)
    return PullRequestNews(key, ReportKind.CHECK, name, outcome, run=run, job=job)


@dataclass(frozen=True, slots=True)
class RemoteComment:
    """A comment of a review at GitHub. `path` is None for one about the whole change."""

    path: str | None
    first: int | None
    last: int | None
    is_old: bool
    """The lines are those before the change."""
    quote: str
    """The last line that it is about, with its sign."""
    text: str


def review_comments(review: PullRequestNews, entries: Sequence[Mapping[str, Any]]) -> list[RemoteComment]:
    """The text of a review and its comments. `entries`: of the list of comments of a review in GitHub's REST API."""
    found = [RemoteComment(None, None, None, False, "", review.body)] if review.body.strip() else []
    for entry in entries[:_ENTRIES_MAX]:
        last = _number(entry, "line") or _number(entry, "original_line")
        first = _number(entry, "start_line") or _number(entry, "original_start_line")
        hunk = _text(entry, "diff_hunk").rstrip("\n").rpartition("\n")[2]
        text = _text(entry, "body")
        is_old = entry.get("side") == "LEFT"
        if text.strip():
            found.append(RemoteComment(_text(entry, "path") or None, first, last, is_old, hunk, text))
    return found


def id_of_review(review: PullRequestNews, entries: Sequence[Mapping[str, Any]]) -> int | None:
    """The number of a review in GitHub's REST API. `entries`: of its list of reviews."""
    return next((_number(e, "id") for e in entries if review.id and e.get("node_id") == review.id), None)


def _entries(view: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = view.get(name)
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict)][:_ENTRIES_MAX]


def _text(entry: Mapping[str, Any], name: str) -> str:
    found = entry.get(name)
    return found if isinstance(found, str) else ""


def _number(entry: Mapping[str, Any], name: str) -> int | None:
    found = entry.get(name)
    return found if isinstance(found, int) and 0 < found < 1 << 53 else None


def _word(entry: Mapping[str, Any], name: str, empty: str = "unknown") -> str:
    word = _text(entry, name).lower()
    return (word if _WORD.fullmatch(word) else "unknown") if word else empty


def _author(entry: Mapping[str, Any]) -> str:
    author = entry.get("author")
    name = folded(_text(author, "login"), NAME_MAX) if isinstance(author, dict) else ""
    return name or "somebody"


def _key(kind: str, *parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{kind} {digest[:32]}"
