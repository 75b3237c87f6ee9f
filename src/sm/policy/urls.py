"""Matches URLs against the patterns of WebFetch rules, host and path separately. Pure."""

import ipaddress
import re
from collections.abc import Iterable, Sequence

from sm.core.dataclass import dataclass
from sm.policy.patterns import UncertainMatch, matches

_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_HOST = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+")
_HOST_PATTERN = re.compile(r"(?=.)(?:[a-z0-9_.-]|[^\x00-\x7f]|\[[0-9a-f:.]*\]?)*(?:\*.*)?")
_PORT_PATTERN = re.compile(r"[0-9]*(?:\*.*)?")
_HOST_AND_PORT = re.compile(r"(.*?)\.?(?::0*([^:\]]*))?")
_ODD_PATH = re.compile(r"[^?#]*?(?:[%\\]|//|/\.|[^!-~])")
"""Paths that a server or claude may normalize to another path."""
_PORTS = {"http": "80", "https": "443"}


def is_url_pattern(pattern: str) -> bool:
    return pattern == "*" or _AUTHORITY.match(pattern) is not None


def url_allowed(pattern: str, url: str) -> bool:
    """Return whether an allow rule matches `url`. The host part of the pattern matches only the host."""
    if not url.isascii() or not url.isprintable() or re.search(r"[\s\\]", url):
        return False
    host, wanted = _AUTHORITY.match(url), _AUTHORITY.match(pattern)
    if host is None or "@" in host.group() or "/.." in url or re.search("%2e", url, re.IGNORECASE):
        return False
    if wanted is None:  # `*`
        return matches(pattern, url)
    head, rest = wanted.group().lower(), pattern[wanted.end() :]
    if head.endswith("*"):
        rest = rest or "*"
        if not head.endswith("//*"):
            head = head.rstrip(
                "*"
            )  # otherwise https://example.org* would match https://example.org.other.example
    return matches(head, host.group().lower()) and matches(rest, url[host.end() :])


@dataclass(frozen=True, slots=True)
class _Url:
    """The parts of a URL or a URL pattern, in canonical spelling."""

    head: str
    """Scheme and authority in lower case, or empty."""
    rest: str
    scheme: str
    host: str
    port: str
    """Empty if the text has no port."""


def _parse(text: str) -> _Url:
    match = _AUTHORITY.match(text)
    head, rest = (match.group().lower(), text[match.end() :]) if match else ("", text)
    scheme, _, authority = head.partition("://")
    parts = _HOST_AND_PORT.fullmatch(authority.rpartition("@")[2])
    host, port = (parts.group(1), parts.group(2) or "") if parts else ("", "")
    return _Url(head, rest, scheme, host, port)


def denying_pattern(patterns: Sequence[str], url: str) -> str | None:
    """The first pattern that matches `url` or an equivalent spelling.

    Raises UncertainMatch if clients may parse the URL differently, or if only the scheme or port differs.
    """
    url = url.strip()
    page = _parse(url)
    wanted = [(pattern, _parse(pattern)) for pattern in patterns]
    for pattern, parts in wanted:
        if matches(pattern, url) or matches(parts.head + parts.rest, page.head + page.rest):
            return pattern
    port = page.port or _PORTS.get(page.scheme, "")
    path = page.rest if page.rest.startswith("/") else f"/{page.rest}"
    pages = {(page.scheme, port)}
    if page.scheme == "http":  # claude requests https instead
        pages.add(("https", _PORTS["https"] if port == _PORTS["http"] else port))
    odd = _ODD_PATH.match(path) is not None
    uncertain = "\\" in page.head or not _is_plain(page.scheme, page.host, port)
    for pattern, parts in wanted:
        usual = _PORTS.get(parts.scheme, "")
        ports = _matching_ports(
            parts, page.host, path, dict.fromkeys((port, usual, *(port for _, port in pages)))
        )
        if any((parts.scheme, candidate) in pages for candidate in ports):
            return pattern
        uncertain = (
            uncertain
            or (bool(usual or parts.port) and bool(ports))
            or (odd and matches(parts.host, page.host))
            or ("xn--" in page.host and not parts.host.isascii())
            or not (_HOST_PATTERN.fullmatch(parts.host) and _PORT_PATTERN.fullmatch(parts.port))
        )
    if uncertain:
        raise UncertainMatch
    return None


def _matching_ports(wanted: _Url, host: str, path: str, ports: Iterable[str]) -> list[str]:
    """The ports at which the pattern matches this page. Its last `*` may also match a port and a path."""
    whole = f"{wanted.host}{wanted.port and f':{wanted.port}'}{wanted.rest}"
    own_port = wanted.port or _PORTS.get(wanted.scheme, "")
    same_page = matches(wanted.host + wanted.rest, host + path) or (
        path == "/" and matches(wanted.host + wanted.rest, host)
    )
    return [
        port
        for port in ports
        if (same_page and matches(own_port, port)) or matches(whole, f"{host}:{port}{path}")
    ]


def _is_plain(scheme: str, host: str, port: str) -> bool:
    """Return whether all clients parse scheme, host and port alike."""
    if scheme not in _PORTS or not _HOST.fullmatch(host) or not re.fullmatch("[0-9]{1,5}", port):
        return False
    if re.fullmatch("[0-9]+|0x.*", host.rpartition(".")[2]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
    return True
