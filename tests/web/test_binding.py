"""Where the server listens, and its certificate."""

from pathlib import Path

import pytest

from sm.errors import ConfigError, SmError, UsageError
from sm.web.address import WebAddress
from sm.web.binding import WebBinding, web_binding
from tests.tls import tls_file


def bound(
    address: str = "127.0.0.1",
    *,
    cert: Path | None = None,
    key: Path | None = None,
    hosts: tuple[str, ...] = (),
) -> WebBinding:
    return web_binding(
        address, 7433, hosts, None if cert is None else str(cert), None if key is None else str(key)
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_loopback_needs_no_certificate(address: str) -> None:
    assert bound(address) == WebBinding(address, 7433, (), None)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.5", "fd00::1", "::ffff:192.168.1.5"])
def test_another_address_without_a_certificate_is_refused_and_a_tunnel_is_named(address: str) -> None:
    with pytest.raises(UsageError, match="a certificate, or a tunnel") as raised:
        bound(address, hosts=("sm.example.net",))
    assert raised.value.hint is not None
    assert "ssh -L" in raised.value.hint


@pytest.mark.parametrize("address", ["localhost", "", "127.0.0.1:80", "[::1]", "1.2.3", "sm.example.net"])
def test_address_must_be_an_ip_address(address: str) -> None:
    with pytest.raises(UsageError, match="is not an IP address"):
        bound(address)


def test_certificate_opens_every_address(tmp_path: Path) -> None:
    cert, key = tls_file(tmp_path, "cert.pem"), tls_file(tmp_path, "key.pem")
    assert bound("192.168.1.5", cert=cert, key=key).certificate is not None
    assert bound("0.0.0.0", cert=cert, key=key, hosts=("sm.example.net",)).certificate is not None
    with pytest.raises(UsageError, match="name those that browsers use"):
        bound("0.0.0.0", cert=cert, key=key)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    cert, key = tls_file(tmp_path, "cert.pem"), tls_file(tmp_path, "key.pem")
    other, encrypted = tls_file(tmp_path, "other.pem"), tls_file(tmp_path, "encrypted.pem")
    missing, empty = tmp_path / "missing.pem", tmp_path / "empty.pem"
    empty.touch(0o600)
    cases: tuple[tuple[dict[str, Path], str], ...] = (
        ({"cert": cert}, "a certificate needs its key"),
        ({"key": key}, "a key its certificate"),
        ({"cert": missing, "key": key}, f"cannot read the certificate {missing}: no such file"),
        ({"cert": cert, "key": missing}, f"cannot read the key {missing}: no such file"),
        ({"cert": tmp_path, "key": key}, f"cannot read the certificate {tmp_path}: is a directory"),
        ({"cert": cert, "key": other}, "does not belong to the certificate"),
        ({"cert": cert, "key": encrypted}, "has a password"),
        ({"cert": cert, "key": empty}, "are not a certificate and its key"),
        ({"cert": key, "key": cert}, "are not a certificate and its key"),
    )
    for given, words in cases:
        with pytest.raises(SmError) as raised:
            bound(cert=given.get("cert"), key=given.get("key"))
        assert words in raised.value.message


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o660, 0o620, 0o602])
def test_key_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    cert, key = tls_file(tmp_path, "cert.pem"), tls_file(tmp_path, "key.pem")
    key.chmod(mode)
    with pytest.raises(ConfigError, match="other users can read or change the key"):
        bound(cert=cert, key=key)
    key.chmod(0o640)
    assert bound(cert=cert, key=key).certificate is not None


@pytest.mark.parametrize(
    ("address", "host", "link"),
    [
        (WebAddress(1, 7433, ()), None, "http://127.0.0.1:7433"),
        (WebAddress(1, 80, ()), None, "http://127.0.0.1"),
        (WebAddress(1, 7433, (), "::1"), None, "http://[::1]:7433"),
        (WebAddress(1, 7433, (), "127.0.0.2"), None, "http://127.0.0.2:7433"),
        (WebAddress(1, 7433, ("sm.example.net",)), None, "http://127.0.0.1:7433"),
        (WebAddress(1, 7433, ("sm.example.net",)), "sm.example.net", "https://sm.example.net"),
        (WebAddress(1, 7433, ("sm.example.net:8443",)), "sm.example.net:8443", "https://sm.example.net:8443"),
        (WebAddress(1, 7433, (), "192.168.1.5", True), None, "https://192.168.1.5:7433"),
        (WebAddress(1, 443, (), "192.168.1.5", True), None, "https://192.168.1.5"),
        (WebAddress(1, 7433, (), "fd00::1", True), None, "https://[fd00::1]:7433"),
        (WebAddress(1, 7433, ("sm.example.net",), "0.0.0.0", True), None, "https://sm.example.net:7433"),
        (WebAddress(1, 7433, ("sm.example.net:443",), "::", True), None, "https://sm.example.net"),
    ],
)
def test_link_leads_to_an_origin_that_the_server_accepts(
    address: WebAddress, host: str | None, link: str
) -> None:
    assert address.link("CODE", host=host) == f"{link}/#CODE"
    assert link in address.rules.origins.values()
