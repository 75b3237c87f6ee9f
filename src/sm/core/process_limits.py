"""The umask and the soft resource limits of a process, by name. Pure.

The names are `umask` and those of setrlimit(2) in lower case. A limit is in the units of setrlimit(2); -1 is unlimited.
Limits that no portable shell can set, and that nobody changes for a shell, have no name here.
"""

from collections.abc import Mapping

from sm.errors import UsageError

UMASK = "umask"
RESOURCES = ("cpu", "fsize", "data", "stack", "core", "nofile", "memlock", "as", "nproc")
UNLIMITED = -1
_VALUE_MAX = (1 << 63) - 1


def checked_limits(given: Mapping[str, int]) -> dict[str, int]:
    """Return the known names of `given`; a newer client may send others. Raises UsageError for a wrong value."""
    known = {name: given[name] for name in (UMASK, *RESOURCES) if name in given}
    for name, value in known.items():
        least, most = (0, 0o777) if name == UMASK else (UNLIMITED, _VALUE_MAX)
        if not least <= value <= most:
            raise UsageError(f"process_limits: {name} must be a number from {least} to {most}")
    return known
