"""How the token of a session's process is kept. Pure."""

import hashlib


def digest(token: str) -> str:
    """Its SHA-256, which is all that is stored of it, so that the database opens no door."""
    return hashlib.sha256(token.encode()).hexdigest()
