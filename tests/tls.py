"""A certificate for tests, which nobody trusts: for 127.0.0.1, ::1, localhost and sm.example.net, until 2126."""

from pathlib import Path

_DATA = Path(__file__).parent / "data" / "tls"


def tls_file(directory: Path, name: str) -> Path:
    """A copy of a file with mode 0600: `cert.pem`, its `key.pem`, that key `encrypted.pem`, or the key `other.pem`."""
    path = directory / name
    path.write_bytes((_DATA / name).read_bytes())
    path.chmod(0o600)
    return path
