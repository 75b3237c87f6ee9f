"""The words of pairing in chats. Pure."""

from sm.core.text import folded

TYPE_CHECKING = False  # see wire.py: the command loads this module too
if TYPE_CHECKING:
    from sm.wire_types.pairings import PairingView, PairRequestView

_LABEL_MAX = 80


def stranger_reply(request: str) -> str:
    """The reply to an unknown user. `request`: the name of the user's request."""
    return f"You are not paired with this sm. Ask its owner to approve request {request}: sm pair approve {request}"


def owner_question(label: str, user: str, request: str) -> str:
    return (
        f"{label or 'A user'} ({user}) asks for access, request {request}. Approve it only if you "
        "know this number. Approve pairs the user with sandboxed agents only; for more: "
        f"sm pair approve {request} --trust direct"
    )


def paired_words(paired: "PairingView") -> str:
    return f"Paired {paired.user} ({folded(paired.label, _LABEL_MAX)}) as {paired.trust_level}"


def denied_words(denied: "PairRequestView") -> str:
    return f"Denied {denied.user} ({folded(denied.label, _LABEL_MAX)})"
