"""The section `web:` of config.yaml."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from sm.config.section import Section

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


Host = Annotated[str, AfterValidator(_host)]


class WebSection(Section):
    """The server of `sm web`, which listens on 127.0.0.1 only."""

    port: Annotated[int, Field(ge=0, le=65535)] = 7433
    """Port of the server. 0: any free port."""
    hosts: Annotated[tuple[Host, ...], Field(max_length=20)] = ()
    """Names under which a tunnel or a proxy with https serves the page to other devices, such as sm.example.net. The
    server refuses requests for any other name. Links for phones lead to the first one."""
