"""Checks where the server listens, and loads its certificate."""

import ipaddress
import os
import ssl

from sm.core.dataclass import dataclass
from sm.errors import ConfigError, UsageError
from sm.web.hosts import is_wildcard

_TUNNEL = "with a tunnel sm web needs no other address: ssh -L 7433:127.0.0.1:7433 HOST, on the other device"


@dataclass(frozen=True, slots=True)
class WebBinding:
    """Where the server listens: an IP address and a port (0 for any free one), and the names of `web.hosts`."""

    address: str
    port: int
    hosts: tuple[str, ...]
    certificate: ssl.SSLContext | None
    """None if the server speaks http."""


def web_binding(
    address: str, port: int, hosts: tuple[str, ...], cert: str | None, key: str | None
) -> WebBinding:
    """Raises UsageError, and ConfigError for files that cannot be used."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(f"{address!r} is not an IP address", "list the addresses: ip address") from None
    if (cert is None) != (key is None):
        raise UsageError("a certificate needs its key, and a key its certificate", "use --cert and --key")
    if cert is None and not parsed.is_loopback:
        raise UsageError(
            f"sm web listens on {address} only with --cert and --key, because others in the network could read "
            "the logins: use a certificate, or a tunnel",
            _TUNNEL,
        )
    if is_wildcard(address) and not hosts:
        raise UsageError(
            f"{address} stands for all addresses: name those that browsers use, because others are refused",
            "in config.yaml: web: {hosts: [sm.example.net]}",
        )
    certificate = None if cert is None or key is None else _certificate(cert, key)
    return WebBinding(str(parsed), port, hosts, certificate)


def _certificate(cert: str, key: str) -> ssl.SSLContext:
    for what, path in (("certificate", cert), ("key", key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(f"cannot read the {what} {path}: {reason}", f"ls -l {path}") from None
    # The group may read it: Debian gives the keys of servers to the group ssl-cert.
    if os.stat(key).st_mode & 0o027:
        raise ConfigError(f"other users can read or change the key {key}", f"chmod 600 {key}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
    except _EncryptedKey:
        raise ConfigError(
            f"the key {key} has a password", f"without a password: openssl pkey -in {key} -out NEW"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"the key {key} does not belong to the certificate {cert}") from None
        raise ConfigError(
            f"{cert} and {key} are not a certificate and its key in PEM format",
            f"openssl x509 -noout -subject -in {cert}; openssl pkey -noout -in {key}",
        ) from None
    return context


class _EncryptedKey(Exception):
    """OpenSSL asks for a password."""


def _refuse_password() -> str:
    raise _EncryptedKey
