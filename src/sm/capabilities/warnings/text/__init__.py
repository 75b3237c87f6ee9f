"""The words of requests about two sessions that only answer each other. Standard library alone."""

from collections.abc import Mapping

from sm.core.lines import line
from sm.core.request_words import RequestWords


def exchange_request(arguments: object) -> str:
    """The subject of a request about two sessions that only answer each other."""
    of = arguments if isinstance(arguments, Mapping) else {}
    return f"{of.get('between')} sent each other {of.get('messages')} messages without other work, and wait"


def _notice(who: str, name: str, arguments: object) -> str:
    return (
        f"{who}: {exchange_request(arguments)}; let them go on with: sm approve {name}, "
        f"or stop them with: sm deny {name}"
    )


REQUESTS = {
    "exchange": RequestWords(
        "only exchanges messages",
        exchange_request,
        lambda arguments: [line(exchange_request(arguments))],
        _notice,
    )
}
"""The words of the kinds of requests that warnings open."""
