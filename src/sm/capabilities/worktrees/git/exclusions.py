"""Makes git ignore a path of sm in all worktrees of a repository, through a file that is never committed."""

import os

from sm.errors import ExternalError


def add_exclusion(common: str, path: str) -> None:
    """Add the path, from the top of a worktree, to the exclusions in the git directory. Raises ExternalError."""
    exclude, rule = f"{common}/info/exclude", os.fsencode(f"/{path}")
    try:
        os.makedirs(f"{common}/info", exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW  # a link could lead to any file
        with os.fdopen(os.open(exclude, flags, 0o666), "a+b") as file:
            file.seek(0)
            before = file.read()
            if rule not in before.split(b"\n"):
                file.write((b"\n" if before and not before.endswith(b"\n") else b"") + rule + b"\n")
    except OSError as error:
        raise ExternalError(f"cannot write {exclude}: {error.strerror}") from None
