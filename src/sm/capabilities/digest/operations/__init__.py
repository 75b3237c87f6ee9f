"""The operation of the digest. Standard library alone; `operations.digests` carries it out."""

from sm.core.dataclass import dataclass
from sm.operations import AgentOperation
from sm.wire_types.digest import DigestView
from sm.wire_types.fields import Time


@dataclass(frozen=True, slots=True)
class DigestPeriod:
    """The time and the sessions of a digest."""

    since: Time | None = None
    """12 hours ago if null."""
    workspace: str | None = None
    """Only members of this workspace (a slug, or `-` for no workspace)."""


SHOW = AgentOperation(
    "digest",
    "Show what happened since a time, worst first.",
    "GET /v1/digest",
    DigestView,
    DigestPeriod,
    command="digest",
    fields={"workspace": {"minLength": 1}},
)
OPERATIONS = (SHOW,)
