"""Decides by its Host, Origin and Sec-Fetch-Site headers whether a request comes from our own page. Pure.

A Host outside of the list is refused even if the Origin agrees with it: a rebound name makes them agree.
"""

from collections.abc import Mapping, Sequence

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class HostRules:
    """The hosts and origins of one server.

    `names`: further hosts (`NAME` or `NAME:PORT`), which a tunnel serves with https. Loopback names use http.
    """

    def __init__(self, port: int, names: Sequence[str] = ()) -> None:
        self._origins: dict[str, str] = {}
        for name in LOOPBACK:
            self._add("http", name, port)
        for entry in names:
            name, number = split_host(entry)
            scheme = "http" if name in LOOPBACK else "https"
            self._add(scheme, name, number or _DEFAULT_PORTS[scheme])

    @property
    def origins(self) -> Mapping[str, str]:
        """The only origin of the page for each value of the Host header."""
        return self._origins

    def _add(self, scheme: str, name: str, port: int) -> None:
        if port == _DEFAULT_PORTS[scheme]:  # browsers omit it
            self._origins[name] = f"{scheme}://{name}"
        else:
            self._origins[f"{name}:{port}"] = f"{scheme}://{name}:{port}"

    def origin_of(self, hosts: Sequence[str]) -> str | None:
        """The origin that belongs to the Host headers of a request; None: refuse the request."""
        return self._origins.get(hosts[0].lower()) if len(hosts) == 1 else None

    def refusal(
        self,
        hosts: Sequence[str],
        origins: Sequence[str],
        sites: Sequence[str],
        *,
        may_omit_origin: bool,
    ) -> str | None:
        """The reason why a request may not come from our page; None: it may. Arguments: all values of each header.

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


def split_host(entry: str) -> tuple[str, int | None]:
    """The name and the port of `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`. Raises ValueError."""
    name, colon, port = entry.rpartition(":") if not entry.endswith("]") else (entry, "", "")
    if not colon:
        return entry.lower(), None
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
    if not 0 < number < 65536:
        raise ValueError(f"{entry!r} has no valid port")
    return name.lower(), number
