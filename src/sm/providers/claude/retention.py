"""Reads after how many days claude deletes transcripts. Measured with 2.1.197.

Each start of claude deletes the transcripts of its user that nobody has written to for `cleanupPeriodDays` days (1 or
more, by default 30).
"""

from collections.abc import Mapping

from sm.providers.base import TranscriptRetention
from sm.providers.claude.settings_files import MANAGED, settings_files
from sm.sandboxes.home import ContainerHome

KEY = "cleanupPeriodDays"
DEFAULT_DAYS = 30


def retention(
    environment: Mapping[str, str],
    working_dir: str,
    home: ContainerHome | None = None,
    *,
    managed: str = MANAGED,
) -> TranscriptRetention:
    """`home`: the home directory of the session's container, or None if claude runs on this host."""
    found = TranscriptRetention(DEFAULT_DAYS)
    for path, settings in settings_files(environment, working_dir, home, managed):
        days = settings.get(KEY)
        # claude refuses other values, and then deletes nothing while they are there.
        if isinstance(days, int) and not isinstance(days, bool) and days >= 1:
            found = TranscriptRetention(days, path)
    return found
