"""Reads what live views show, and keeps the present state of it."""

from sm.feed.feed import Feed, FeedNews, FeedSource, Mail, MailFailure, Outage, Unshown, read_row
from sm.feed.situation import Situation

__all__ = [
    "Feed",
    "FeedNews",
    "FeedSource",
    "Mail",
    "MailFailure",
    "Outage",
    "Situation",
    "Unshown",
    "read_row",
]
