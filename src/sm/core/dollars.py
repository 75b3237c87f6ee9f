"""Costs in every view. Pure, and cheap to import."""


def dollars(cost_usd: float | None, *, partial: bool = False) -> str:
    """`$1.25`; `$1.25+` if a part of the price is unknown, `?` if nothing of it is known, `-` without a cost."""
    if cost_usd is None:
        return "?" if partial else "-"
    return f"${cost_usd:,.2f}{'+' if partial else ''}"
