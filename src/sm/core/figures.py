"""Costs, tokens and names of models in every view. Pure, and cheap to import."""

from collections.abc import Mapping, Sequence

_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def dollars(cost_usd: float | None, *, partial: bool = False) -> str:
    """`$1.25`; `$1.25+` if a part of the price is unknown, `?` if nothing of it is known, `-` without a cost."""
    if cost_usd is None:
        return "?" if partial else "-"
    return f"${cost_usd:,.2f}{'+' if partial else ''}"


def short_count(number: float, *, narrow: bool = False) -> str:
    """`950`, `12.3k`, `4.5M`. `narrow`: whole thousands, rounded down: `12k`."""
    for unit, suffix in _UNITS:
        if number >= unit:
            return f"{number // unit:g}k" if narrow and suffix == "k" else f"{number / unit:.1f}{suffix}"
    return f"{number:g}"


def token_count(
    tokens: Mapping[str, int] | None,
    kinds: Sequence[str] = ("input", "output"),
    *,
    partial: bool = False,
    narrow: bool = False,
) -> str:
    """The tokens of these kinds, as `short_count`; `12.3k+` if some are unknown, `?` if all are, `-` without any."""
    if tokens is None:
        return "?" if partial else "-"
    return f"{short_count(sum(tokens[kind] for kind in kinds), narrow=narrow)}{'+' if partial else ''}"


def model_name(model: str, provider: str) -> str:
    """The model without the name of its provider and without its date: `opus-4-8`."""
    name = model.removeprefix(f"{provider}-")
    base, _, date = name.rpartition("-")
    return base if base and len(date) == 8 and date.isdecimal() else name
