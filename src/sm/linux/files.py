"""Bounded reads of files that agents can write."""

import os


def read_at_most(path: str, most: int) -> bytes:
    """At most `most` bytes of a file that an agent can write: no link is followed, no pipe waited for.

    Empty when it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        try:
            return file.read(most) or b""  # None: a pipe that somebody holds open
        except OSError:
            return b""
