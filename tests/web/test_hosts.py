"""The rules for Host, Origin and Sec-Fetch-Site."""

import pytest

from sm.web.hosts import HostRules, split_host

RULES = HostRules(7433, ("sm.example.net", "other.example.net:8443", "localhost:9000"))
OURS = "http://127.0.0.1:7433"


def refused(
    host: str | list[str], origin: str | None, site: str | None = "same-origin", *, get: bool = False
) -> str | None:
    return RULES.refusal(
        [host] if isinstance(host, str) else host,
        [] if origin is None else [origin],
        [] if site is None else [site],
        may_omit_origin=get,
    )


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:7433", OURS),
        ("localhost:7433", "http://localhost:7433"),
        ("LOCALHOST:7433", "http://localhost:7433"),
        ("[::1]:7433", "http://[::1]:7433"),
        ("sm.example.net", "https://sm.example.net"),
        ("other.example.net:8443", "https://other.example.net:8443"),
        ("localhost:9000", "http://localhost:9000"),
    ],
)
def test_rules_allow_our_page_when_host_and_origin_are_in_the_list(host: str, origin: str) -> None:
    assert refused(host, origin) is None
    assert refused(host, origin, None) is None
    assert refused(host, None, get=True) is None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example", "http://evil.example"),
        ("evil.example:7433", "http://evil.example:7433"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("127.0.0.1:80", "http://127.0.0.1:80"),
        ("127.0.0.1:7433.evil.example", OURS),
        ("127.0.0.1:7433@evil.example", OURS),
        ("sm.example.net:7433", "https://sm.example.net:7433"),
        ("", OURS),
        ([], OURS),
        (["127.0.0.1:7433", "evil.example"], OURS),
        (["127.0.0.1:7433", "127.0.0.1:7433"], OURS),
    ],
)
def test_rules_refuse_a_host_outside_of_the_list_when_the_origin_agrees(
    host: str | list[str], origin: str
) -> None:
    assert refused(host, origin) == "this host is not in the list"
    assert refused(host, None, get=True) == "this host is not in the list"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://localhost:3000",
        "http://localhost:7433",
        "https://127.0.0.1:7433",
        "http://127.0.0.1",
        "http://127.0.0.1:7433/",
        "http://127.0.0.1:74330",
        "HTTP://127.0.0.1:7433",
        "",
        "http://127.0.0.1:7433, http://evil.example",
    ],
)
def test_rules_refuse_another_origin(origin: str) -> None:
    assert refused("127.0.0.1:7433", origin) == "the request comes from another origin"
    assert refused("127.0.0.1:7433", origin, get=True) == "the request comes from another origin"


def test_rules_refuse_a_missing_origin_unless_the_browser_vouches_for_a_get() -> None:
    assert refused("127.0.0.1:7433", None) == "the request comes from another origin"
    assert refused("127.0.0.1:7433", None, None, get=True) == "the request comes from another origin"
    assert RULES.refusal(["127.0.0.1:7433"], [OURS, OURS], [], may_omit_origin=True)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "", "same-origin, cross-site"])
def test_rules_refuse_another_site_when_the_origin_is_ours(site: str) -> None:
    assert refused("127.0.0.1:7433", OURS, site) == "the request comes from another site"
    assert refused("127.0.0.1:7433", None, site, get=True) == "the request comes from another site"


def test_rules_omit_the_default_port() -> None:
    assert HostRules(80).origins["127.0.0.1"] == "http://127.0.0.1"
    assert HostRules(80, ("sm.example.net:443",)).origins["sm.example.net"] == "https://sm.example.net"


def test_server_with_a_certificate_accepts_https_only() -> None:
    names = ("sm.example.net", "proxy.example.net:443")
    origins = HostRules(7433, names, bind="192.168.1.5", is_secure=True).origins
    assert dict(origins) == {
        "127.0.0.1:7433": "https://127.0.0.1:7433",
        "localhost:7433": "https://localhost:7433",
        "[::1]:7433": "https://[::1]:7433",
        "192.168.1.5:7433": "https://192.168.1.5:7433",
        "sm.example.net:7433": "https://sm.example.net:7433",
        "proxy.example.net": "https://proxy.example.net",
    }
    for wildcard in ("0.0.0.0", "::"):
        assert len(HostRules(7433, bind=wildcard, is_secure=True).origins) == 3


@pytest.mark.parametrize("entry", ["a:0", "a:65536", "a:x", "a:", "a:-1", "a:٣"])
def test_split_host_refuses_an_invalid_port(entry: str) -> None:
    with pytest.raises(ValueError, match="no valid port"):
        split_host(entry)
