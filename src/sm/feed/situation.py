"""Everything that a live view shows of one daemon: the rows, what needs a person, and the connection."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sm import __version__
from sm.board import BoardNeed, Quiet, RowChange, SessionTable, needs
from sm.feed.feed import FeedNews, Mail, MailFailure, Outage


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

    def take(self, news: FeedNews, clock_s: float) -> RowChange | None:
        """Take one piece of news. Returns the rows that it changes."""
        if isinstance(news, Mail):
            self.mail = news
        elif isinstance(news, MailFailure):
            mail = self.mail or Mail()
            self.mail = replace(mail, overview={**mail.overview, "trouble": [news.reason]})
        elif isinstance(news, Outage):
            self.outage = news.reason
            self.table.lose(clock_s)
        else:
            change = self.table.apply(news, clock_s)
            open_requests = {row.id: row.requests for row in self.table.rows.values() if row.requests}
            if open_requests != self._open_requests:
                self._open_requests = open_requests
                self._ask()
            return change
        return None

    def find_needs(self, clock_s: float) -> None:
        """Bring `found` and `quiet` up to date."""
        mail = self.mail
        if mail is None:
            return
        now_s = self.table.now_s(clock_s)
        self.found = needs(self.table.unarchived, mail.requests, mail.messages, mail.overview, now_s)
        if self.table.lost_for_s(clock_s) is None:
            self.quiet.update(self.found, now_s)
