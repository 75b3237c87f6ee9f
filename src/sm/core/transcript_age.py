"""Decides when a session is warned that its transcript will be deleted. Pure."""

_DAY_S = 86_400.0
_BEFORE_DAYS = 2.0


def expires_in_s(changed_s: float, days: int, now_s: float) -> float:
    """The seconds until an agent CLI deletes a transcript that was last changed at `changed_s`."""
    return changed_s + days * _DAY_S - now_s


def is_about_to_expire(changed_s: float, days: int, now_s: float) -> bool:
    """True in the last two days, or in the second half of a shorter time."""
    return expires_in_s(changed_s, days, now_s) <= min(_BEFORE_DAYS, days / 2) * _DAY_S
