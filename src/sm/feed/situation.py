"""Everything that a live view shows of one daemon: the rows, what needs a person, and the connection."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sm import __version__
from sm.board import BoardNeed, Quiet, RowChange, SessionTable, needs
from sm.core.lines import line
from sm.feed.feed import FeedNews, Mail, MailFailure, Outage, Unshown


class Situation:
    """Call `take` for all news of the feed, and `find_needs` before each drawing.

    `ask`: reads requests and messages again. The rows tell when requests change.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self.table = SessionTable()
        self.mail: Mail | None = None
        """None until it is read."""
        self.outage = ""
        """The reason of the last outage."""
        self._unshown: dict[str, str] = {}
        """Why the view cannot show news, by their name."""
        self.found: Sequence[BoardNeed] = ()
        self.quiet = Quiet()
        self._ask = ask
        self._open_requests: dict[str, Sequence[str]] = {}

    @property
    def workspaces(self) -> Sequence[str]:
        """The slugs of those that are not deleted."""
        return () if self.mail is None else self.mail.workspaces

    @property
    def daemon_version(self) -> str:
        """The version of the daemon. Until it has told its version: that of this package."""
        daemon = {} if self.mail is None else self.mail.overview.get("daemon") or {}
        return str(daemon.get("version") or __version__)

    @property
    def unshown(self) -> str:
        """The news that the view cannot show, and why, or empty if it shows all."""
        return "; ".join(f"cannot show all {what} ({line(why, 100)})" for what, why in self._unshown.items())

    def take(self, news: FeedNews, clock_s: float) -> RowChange | None:
        """Take one piece of news. Returns the rows that it changes."""
        if isinstance(news, Unshown):
            self._unshown[_name(news.news)] = news.reason
        elif isinstance(news, Mail):
            self._needs(news, clock_s)  # if that fails, the last mail is shown
            self.mail = news
            self._unshown.pop(_name(news), None)
        elif isinstance(news, MailFailure):
            mail = self.mail or Mail()
            self.mail = replace(mail, overview={**mail.overview, "trouble": [news.reason]})
        elif isinstance(news, Outage):
            self.outage = news.reason
            self.table.lose(clock_s)
        else:
            change = self.table.apply(news, clock_s)
            if change is not None and change.snapshot:
                self._unshown.pop(_name(news), None)
            open_requests = {row.id: row.requests for row in self.table.rows.values() if row.requests}
            if open_requests != self._open_requests:
                self._open_requests = open_requests
                self._ask()
            return change
        return None

    def find_needs(self, clock_s: float) -> None:
        """Bring `found` and `quiet` up to date."""
        if self.mail is None:
            return
        self.found = self._needs(self.mail, clock_s)
        if self.table.lost_for_s(clock_s) is None:
            self.quiet.update(self.found, self.table.now_s(clock_s))

    def _needs(self, mail: Mail, clock_s: float) -> Sequence[BoardNeed]:
        now_s = self.table.now_s(clock_s)
        return needs(self.table.unarchived, mail.requests, mail.messages, mail.overview, now_s)


def _name(news: FeedNews) -> str:
    return "requests and messages" if isinstance(news, Mail | MailFailure) else "sessions"
