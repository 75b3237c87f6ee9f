"""Amounts of a budget as they are typed. Pure, and cheap to import."""

import math

_DIGITS = {"usd": 6, "tokens": 0, "minutes": 2}
_ROUNDING = 1e-6


def amount_text(unit: str, amount: float) -> str:
    """An amount as it is typed: `5`, `2.5`, `300k`, `2M`."""
    if unit == "tokens":
        whole = round(amount)
        for suffix, factor in (("M", 1_000_000), ("k", 1_000)):
            if whole and whole % (factor // 10) == 0 and abs(whole) >= factor:
                return f"{whole / factor:g}{suffix}" if whole % factor else f"{whole // factor}{suffix}"
        return str(whole)
    return f"{amount:.{_DIGITS[unit]}f}".rstrip("0").rstrip(".") or "0"


def floor_text(unit: str, amount: float) -> str:
    """An amount as it is typed, rounded down, so that it is no more than what is left."""
    scale = 10 ** _DIGITS[unit]
    return amount_text(unit, max(0, math.floor(amount * scale + _ROUNDING)) / scale)
