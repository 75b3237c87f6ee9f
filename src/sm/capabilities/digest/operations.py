"""The operation of the digest. Standard library alone; `digests` carries it out."""

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import EVERY_CALLER, READ_ALSO_ITSELF, SEE
from sm.operations.request_operations import SEE_REQUESTS_OF
from sm.wire_types.digest import DigestView
from sm.wire_types.fields import Time


@dataclass(frozen=True, slots=True)
class DigestPeriod:
    """The time and the sessions of a digest."""

    since: Time | None = None
    """12 hours ago if null."""
    workspace: str | None = None
    """Only members of this workspace (a slug, or `-` for no workspace)."""


SHOW = Operation(
    "digest",
    "Show what happened since a time, worst first.",
    "GET /v1/digest",
    DigestView,
    DigestPeriod,
    audience=EVERY_CALLER,
    rules=(SEE, READ_ALSO_ITSELF, SEE_REQUESTS_OF),
    command="digest",
    fields={"workspace": {"minLength": 1}},
)
OPERATIONS = (SHOW,)
