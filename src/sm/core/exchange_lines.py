"""Formats requests about two sessions that only answer each other. Pure."""

from collections.abc import Mapping


def exchange_request(arguments: object) -> str:
    """The subject of a request about two sessions that only answer each other."""
    of = arguments if isinstance(arguments, Mapping) else {}
    return f"{of.get('between')} sent each other {of.get('messages')} messages without other work, and wait"
