"""Decides by its Host, Origin and Sec-Fetch-Site headers whether a request comes from our own page. Pure.

A Host outside of the list is refused even if the Origin agrees with it: a rebound name makes them agree.
"""

from collections.abc import Mapping, Sequence

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class HostRules:
    """The hosts and origins of one server.

    `names`: further hosts (`NAME` or `NAME:PORT`). A tunnel or a proxy serves them with https, by default on port 443.
    Loopback names use http. `bind`: the IP address on which the server listens. `is_secure`: the server itself speaks
    https, for all names and by default on its own port.
    """

    def __init__(
        self, port: int, names: Sequence[str] = (), *, bind: str = "127.0.0.1", is_secure: bool = False
    ) -> None:
        self._origins: dict[str, str] = {}
        self.named: dict[str, str] = {}
        """The origin of each of `names`."""
        own = "https" if is_secure else "http"
        self.on_loopback = [self._add(own, name, port) for name in LOOPBACK]
        """The origins that only this machine can open."""
        self.bound = self._add(own, LOOPBACK[0] if is_wildcard(bind) else name_of(bind), port)
        """The origin of the address."""
        for entry in names:
            name, number = split_host(entry)
            scheme = own if name in LOOPBACK else "https"
            self.named[entry] = self._add(
                scheme, name, number or (port if is_secure else _DEFAULT_PORTS[scheme])
            )

    @property
    def origins(self) -> Mapping[str, str]:
        """The only origin of the page for each value of the Host header."""
        return self._origins

    def _add(self, scheme: str, name: str, port: int) -> str:
        host = name if port == _DEFAULT_PORTS[scheme] else f"{name}:{port}"  # browsers omit the default port
        self._origins[host] = f"{scheme}://{host}"
        return self._origins[host]

    def origin_of(self, hosts: Sequence[str]) -> str | None:
        """The origin that belongs to the Host headers of a request, or None to refuse the request."""
        return self._origins.get(hosts[0].lower()) if len(hosts) == 1 else None

    def refusal(
        self,
        hosts: Sequence[str],
        origins: Sequence[str],
        sites: Sequence[str],
        *,
        may_omit_origin: bool,
    ) -> str | None:
        """The reason why a request may not come from our page, or None if it may. Arguments: all values of each header.

        `may_omit_origin`: browsers send no Origin with a GET of the page's own origin, but then say so in
        Sec-Fetch-Site, which scripts cannot set.
        """
        own = self.origin_of(hosts)
        if own is None:
            return "this host is not in the list"
        if any(site != "same-origin" for site in sites):
            return "the request comes from another site"
        if not origins and may_omit_origin and len(sites) == 1:
            return None
        return None if list(origins) == [own] else "the request comes from another origin"


def is_wildcard(address: str) -> bool:
    """Return whether the IP address stands for all addresses of this machine."""
    return address in ("0.0.0.0", "::")


def name_of(address: str) -> str:
    """The IP address as the host of a URL."""
    return f"[{address}]" if ":" in address else address


def split_host(entry: str) -> tuple[str, int | None]:
    """The name and the port of `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`. Raises ValueError."""
    name, colon, port = entry.rpartition(":") if not entry.endswith("]") else (entry, "", "")
    if not colon:
        return entry.lower(), None
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
    if not 0 < number < 65536:
        raise ValueError(f"{entry!r} has no valid port")
    return name.lower(), number
