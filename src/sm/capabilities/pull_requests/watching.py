"""Follows a pull request for `sm pr --watch`: each check, review and comment becomes an event of the session once.

It runs in the command, with the environment of its caller. The daemon keeps what was reported and the number of failed
checks that were sent, so another watch goes on where this one ended.
"""

from collections.abc import Callable

from sm.capabilities.pull_requests.agent_messages import (
    comment_text,
    failed_check_text,
    review_text,
    state_text,
)
from sm.capabilities.pull_requests.github import GitHub, GitHubUnavailable
from sm.capabilities.pull_requests.model import PullRequestState, ReportKind
from sm.capabilities.pull_requests.news import PullRequestNews, news_of
from sm.client.http import Client, session_path
from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, line
from sm.errors import ExternalError

_FIRST_S = 15.0
_LONGEST_S = 120.0
_DISMISSED = "dismissed"
"""The outcome of a review that was taken back. Its comments were sent before."""
_FAILURES_MAX = 6
"""After so many failures of gh in a row, the watch ends."""


@dataclass(frozen=True, slots=True)
class WatchedPullRequest:
    """A recorded pull request, with the connections to the daemon and to GitHub."""

    client: Client
    github: GitHub
    session_id: str
    url: str
    number: int

    @property
    def path(self) -> str:
        return session_path(self.session_id, "/pull-requests")


def watch(
    watched: WatchedPullRequest, tell: Callable[[str], None], pause: Callable[[float], None]
) -> PullRequestState:
    """Follow a pull request until it is merged or closed.

    `tell`: prints one line about news. `pause`: sleeps. Raises ExternalError if gh fails again and again or is not
    logged in any more, and the errors of the daemon.
    """
    backoff, failures = Backoff(_FIRST_S, _LONGEST_S), 0
    known = set(_reported(watched))
    while True:
        try:
            fresh = [news for news in news_of(watched.github.view(watched.number)) if news.key not in known]
            for news in fresh:
                _report(watched, news, tell)
                known.add(news.key)
                if news.kind is ReportKind.STATE:
                    return PullRequestState(news.outcome)
            failures = 0
            if fresh:
                backoff.reset()
        except GitHubUnavailable:
            raise
        except ExternalError as error:
            failures += 1
            if failures == 1:
                tell(f"{error.message}; trying again")
            if failures >= _FAILURES_MAX:
                raise ExternalError(
                    f"gave up after {failures} failures: {error.message}", error.hint
                ) from None
        pause(backoff.next_s())


def _reported(watched: WatchedPullRequest) -> list[str]:
    """The keys of the news that are events already, also of an end: a watch of a closed one tells it again."""
    found: list[JsonObject] = watched.client.get(watched.path)
    keys = (each["reported"] for each in found if each["url"] == watched.url)
    return [key for key in next(keys, []) if not key.startswith(f"{ReportKind.STATE} ")]


def _report(watched: WatchedPullRequest, news: PullRequestNews, tell: Callable[[str], None]) -> None:
    """Report one piece of news to the daemon, and print it if nobody has reported it before."""
    body = {
        "url": watched.url,
        "key": news.key,
        "kind": news.kind,
        "name": news.name or None,
        "outcome": news.outcome,
        "text": _text(watched, news),
    }
    done: JsonObject = watched.client.post(f"{watched.path}/reports", body)
    if done["is_new"] or news.kind is ReportKind.STATE:
        tell(_line(watched.number, news, done))


def _text(watched: WatchedPullRequest, news: PullRequestNews) -> str | None:
    """The message for the agent, or None for news that only becomes an event."""
    number = watched.number
    if news.kind is ReportKind.STATE:
        return state_text(number, news.outcome)
    if news.is_failure:
        return failed_check_text(number, news, watched.github.log_of(news))
    if news.kind is ReportKind.REVIEW and news.outcome != _DISMISSED:
        comments = watched.github.comments_of(number, news)
        return review_text(number, news, comments) if comments else None
    if news.kind is ReportKind.COMMENT and news.body.strip():
        return comment_text(number, news)
    return None


def _line(number: int, news: PullRequestNews, done: JsonObject) -> str:
    outcome = news.outcome.replace("_", " ")
    match news.kind:
        case ReportKind.STATE:
            words = f"pull request {number} is {outcome}"
        case ReportKind.CHECK:
            words = f"check {line(news.name)}: {outcome}"
        case _:
            words = f"{news.kind} by {line(news.name)}: {outcome}"
    if done["message_id"] is not None:
        return f"{words}; sent to the agent as message {done['message_id']}"
    return words if done["unsent"] is None else f"{words}; not sent to the agent: {line(done['unsent'], 300)}"
