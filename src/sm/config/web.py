"""The section `web:` of config.yaml."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from sm.config.fields import AbsolutePath
from sm.section import Section

_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


def _host(value: str) -> str:
    found = _HOST.fullmatch(value)
    if found is None or (found["port"] is not None and not 0 < int(found["port"]) < 65536):
        raise ValueError(
            "must be a name such as sm.example.net or sm.example.net:8443, without https:// and path"
        )
    return value.lower()


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError("must be an IP address such as 127.0.0.1 or 192.168.1.5") from None


Host = Annotated[str, AfterValidator(_host)]
IpAddress = Annotated[str, AfterValidator(_address)]


class WebSection(Section):
    """The server of `sm web`."""

    port: Annotated[int, Field(ge=0, le=65535)] = 7433
    """Port of the server, or 0 for any free port."""
    bind: IpAddress = "127.0.0.1"
    """IP address on which the server listens. All but those of this machine (127.0.0.1, ::1) need cert and key."""
    cert: AbsolutePath | None = None
    """File with the certificate (PEM, with the chain) for https."""
    key: AbsolutePath | None = None
    """File with the key of the certificate (PEM, without a password). Other users must not be able to read it."""
    start_with_daemon: bool = False
    """Let the daemon run sm web in the background, and start it again when it ends. For a link: sm web link."""
    hosts: Annotated[tuple[Host, ...], Field(max_length=20)] = ()
    """Names under which other devices reach the page with https: through a tunnel or a proxy, or with cert and key, by
    default on the port of the server. Example: sm.example.net. The server refuses requests for any other name. Links
    for phones lead to the first one."""
