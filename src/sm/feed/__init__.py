"""Reads what live views show, and keeps the present state of it."""

from sm.feed.feed import (
    Feed,
    FeedNews,
    FeedSource,
    Mail,
    MailFailure,
    Outage,
    Unshown,
    live_request,
    read_row,
)
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
    "live_request",
    "read_row",
]
