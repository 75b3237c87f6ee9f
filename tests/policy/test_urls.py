"""Decisions of rules about URLs: allow, deny or leave to a person."""

import pytest

from tests.policy.decisions import decide


def fetch(url: object, *allow: str, deny: tuple[str, ...] = ()) -> bool | None:
    return decide("WebFetch", {"url": url}, allow, deny)


@pytest.mark.parametrize(
    "url", ["https://docs.example.org/", "https://docs.example.org/a?b=c", "HTTPS://Docs.example.org/A"]
)
def test_url_pattern_covers_the_pages_of_its_host(url: str) -> None:
    assert fetch(url, "WebFetch(https://docs.example.org/*)") is True
    assert fetch(url, "WebFetch(https://*.example.org/*)") is True
    assert fetch(url, "WebFetch(https://docs.example.org*)") is True
    assert fetch(url, "WebFetch(https://*)") is True


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example.org.evil.test/", "https://docs.example.org@evil.test/",
        "https://evil.test/docs.example.org/", "https://evil.test/?https://docs.example.org/",
        "https://evil.test#.example.org/", "https://evil.test\\.example.org/", "https://evil.test/.example.org/",
        "http://docs.example.org/", "https://docs.example.org:x@evil.test/", "https://docs.ex\u0430mple.org/",
        "https://docs.example.org/ x", "https://docs.example.org/\nx", "docs.example.org/", "", None,
    ],
)  # fmt: skip
def test_url_pattern_allows_nothing_when_the_host_is_another(url: object) -> None:
    rules = [f"WebFetch(https://{host}example.org{end})" for host in ("docs.", "*.") for end in ("/*", "*")]
    assert fetch(url, *rules) is None


def test_url_pattern_allows_no_path_with_dots() -> None:
    assert fetch("https://a.test/pub/../x", "WebFetch(https://a.test/pub/*)") is None
    assert fetch("https://a.test/pub/%2E%2e/x", "WebFetch(https://a.test/pub/*)") is None


def test_deny_rule_covers_the_pages_of_its_host() -> None:
    deny = ("WebFetch(https://intern.test/*)",)
    for url in (
        "https://intern.test/a",
        "https://intern.test",
        "HTTPS://Intern.test/",
        "https://x@intern.test/",
    ):
        assert fetch(url, "WebFetch", deny=deny) is False
    assert fetch("https://other.test/", "WebFetch", deny=deny) is True
    assert fetch("intern.test/", "WebFetch", deny=deny) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.org/x", "HTTP://EVIL.ORG", "https://evil.org./x", "https://evil.org:443/x",
        "http://evil.org:80/x", "https://evil.org:/", "https://evil.org?x", "https://evil.org#x",
        " https://evil.org/x", "https://evil.org/a/../x",
    ],
)  # fmt: skip
def test_deny_rule_covers_other_spellings_of_a_url(url: str) -> None:
    for rule in (
        "https://evil.org/*",
        "https://Evil.org./*",
        "https://evil.org:443/*",
        "https://evil.org*",
        "*",
        "https://*",
    ):
        assert fetch(url, "WebFetch", "WebFetch(*)", deny=(f"WebFetch({rule})",)) is False
    assert fetch(url, "WebFetch", deny=("WebFetch(https://*.evil.org/*)",)) is True
    assert fetch(url, "WebFetch", deny=("WebFetch(https://evil.or/*)",)) is True


@pytest.mark.parametrize(
    "url",
    [
        "https://evil%2eorg/x", "https:///evil.org/x", "https:/evil.org/x", "https:evil.org/x",
        "https://evil.org\\x", "https://evil.org\\@good.org/x", "https://ev\til.org/x", "https://\u212fvil.org/x",
        "https://evil\u3002org/x", "https://[::1]/x", "https://2130706433/x", "https://0x7f.1/x", "https://127.1/x",
        "https://evil.org:8443/x", "https://evil.org:x/", "ftp://evil.org/x", "https://",
    ],
)  # fmt: skip
def test_person_decides_when_a_url_may_be_denied(url: str) -> None:
    assert fetch(url, "WebFetch", "WebFetch(*)", deny=("WebFetch(https://evil.org/*)",)) is None


def test_person_decides_when_the_path_of_a_url_may_be_denied() -> None:
    deny = ("WebFetch(https://a.test/priv/*)",)
    for path in (
        "/x/../priv/a",
        "/%70riv/a",
        "//priv/a",
        "/.%2e/priv/a",
        "/./priv/a",
        "/\\priv/a",
        "/pr\niv/a",
    ):
        assert fetch(f"https://a.test{path}", "WebFetch", deny=deny) is None
        assert fetch(f"https://b.test{path}", "WebFetch", deny=deny) is True
    assert fetch("https://a.test/pub/a.html?x=%20", "WebFetch", deny=deny) is True
    assert fetch("https://a.test/priv/%70", "WebFetch", deny=deny) is False


def test_deny_rule_compares_scheme_and_port() -> None:
    deny = ("WebFetch(http://localhost:3000/*)",)
    assert fetch("http://localhost:3000/x", "WebFetch", deny=deny) is False
    assert fetch("https://localhost:3000/x", "WebFetch", deny=deny) is None
    assert fetch("http://localhost:8000/x", "WebFetch", deny=deny) is True
    assert fetch("https://127.0.0.1/x", "WebFetch", deny=deny) is True
    assert fetch("https://a.test/x", "WebFetch", deny=("WebFetch(http://*)",)) is None
    assert fetch("https://a.test/x", "WebFetch", deny=("WebFetch(http://a.test:80/*)",)) is None
    assert fetch("https://xn--bcher-kva.test/", "WebFetch", deny=("WebFetch(https://bücher.test/*)",)) is None


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("http://localhost:3000*", "http://localhost:3000/x"), ("http://localhost:3000*", "http://localhost:3000"),
        ("http://localhost:3000*", "HTTP://x@LOCALHOST.:03000?x"),
        ("https://localhost:3000*", "http://localhost:3000/x"), ("http://localhost:*", "http://localhost:3000/x"),
        ("http://localhost:*", "http://localhost"), ("http://localhost:*/*", "http://localhost:3000/x"),
        ("http://localhost:*/*", "http://localhost/x"), ("http://localhost*", "http://localhost:3000/x"),
        ("http://localhost.:3*/*", "http://localhost:3000/x"), ("https://evil.org:*/*", "https://evil.org:8443/x"),
        ("https://evil.org:8*/*", "https://evil.org:8443/x"), ("https://evil.org:4*/*", "https://evil.org/x"),
        ("http://127.0.0.1*", "http://127.0.0.1:8000/x"), ("http://10.*", "http://10.0.0.1:8000/x"),
        ("http://10.*", "http://10.1/x"), ("https://*evil*", "https://x.evil.org:8443/x"),
        ("https://*evil*", "https://x.org/evil%20"), ("https://evil.org.*", "https://evil.org./x"),
        ("https://*.evil.org/*", "https://a%2e.evil.org/x"), ("https://[::1]/*", "https://[::1]/x"),
        ("https://[::1]/*", "http://[::1]/x"), ("https://[::1]/*", "https://[::1]:443/x"),
        ("https://[::1]:*", "https://[::1]:8443/x"), ("https://[::1]*", "https://[::1]:8443/x"),
        ("https://*:443", "http://localhost/x"), ("http://*evil*:3000", "http://u@evil.org:3000/%78"),
        ("https://localhost:44*", "http://localhost:80/x"), ("*", "nowhere"),
    ],
)  # fmt: skip
def test_deny_rule_covers_hosts_and_ports_in_place_of_its_stars(rule: str, url: str) -> None:
    assert fetch(url, "WebFetch", deny=(f"WebFetch({rule})",)) is False
    assert fetch(url, "WebFetch", deny=("WebFetch(https://b%/*)", f"WebFetch({rule})")) is False


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("http://localhost:3000*", "https://localhost:3000/x"), ("http://localhost:*", "https://localhost:3000/x"),
        ("http://localhost:3000*", "http://localhost:x/"),
        ("https://evil.org:8*/x/*", "https://evil.org:8443/%78/y"), ("https://[::1]/*", "https://[::1]:8443/x"),
        ("https://[::1]/*", "https://[0::1]/x"), ("https://evil%2eorg/*", "https://a.test/x"),
        ("https://evil.org:x/*", "https://a.test/x"), ("https:///x", "https://a.test/x"),
    ],
)  # fmt: skip
def test_person_decides_when_a_rule_or_url_is_not_plain(rule: str, url: str) -> None:
    assert fetch(url, "WebFetch", deny=(f"WebFetch({rule})",)) is None


def test_deny_rule_with_a_star_for_the_port_allows_other_hosts() -> None:
    for rule in (
        "http://localhost:3000*",
        "http://localhost:3*/*",
        "https://[::1]*",
        "https://b.test*k=*",
        "ftp://*",
    ):
        for url in ("http://localhost:8000/x", "http://localhost.test:3000/x", "https://a.test/x"):
            assert fetch(url, "WebFetch", deny=(f"WebFetch({rule})",)) is True
