"""Formats requests about two sessions that only answer each other. Pure."""

from collections.abc import Mapping


def exchange_request(arguments: Mapping[str, object] | None) -> str:
    """The subject of a request about two sessions that only answer each other."""
    of = arguments or {}
    return f"{of.get('between')} sent each other {of.get('messages')} messages without other work, and wait"
