"""The operations of sandboxes: their engine, their image and their containers. All of them are the operator's."""

from dataclasses import field
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.programs import image_agents, login_commands
from sm.operations import Most, Operation
from sm.operations.access_rules import EVERY_CALLER, OPERATOR_AND_OWNERS, Audience
from sm.operations.arguments import NewsWait
from sm.wire_types.sandbox_answers import (
    BuildView,
    CommandView,
    DoneView,
    SandboxView,
    UnusedView,
    WritableView,
)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    agents: list[str] = field(default_factory=list)
    no_cache: bool | None = None
    pull: bool | None = None
    """Ask the registry for a newer base image."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of the caller, of which the build gets proxies and npm's registry."""


@dataclass(frozen=True, slots=True)
class BuildLines(NewsWait):
    after: Annotated[int, Most(10**18)] = 0
    """The number of lines that the caller has."""


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    force: bool | None = None
    """End the sessions and the other processes in it."""


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    login: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedPaths:
    paths: list[str] = field(default_factory=list)
    """Absolute paths of this machine."""


@dataclass(frozen=True, slots=True)
class UnusedScope:
    homes: bool = False
    """If present, include homes of deleted workspaces."""
    images: bool = False
    """If present, include images that no container uses."""


@dataclass(frozen=True, slots=True)
class PruneOptions:
    homes: bool | None = None
    """Remove the homes of deleted workspaces."""
    images: bool | None = None
    """Remove the images without a name that no container uses."""


_SANDBOXES = Audience("manage_sandboxes", "manage sandboxes", OPERATOR_AND_OWNERS)
"""The logins of agents are in the containers' homes."""
SHOW_SANDBOX = Operation(
    "sandbox_status",
    "Show the engine, the image and the containers.",
    "GET /v1/sandbox",
    SandboxView,
    audience=_SANDBOXES,
    command="sandbox status",
    audit="sandbox",
)
BUILD = Operation(
    "build_image",
    "Begin to build the image. A build with the same options that already runs is joined.",
    "POST /v1/sandbox/build",
    BuildView,
    BuildOptions,
    audience=_SANDBOXES,
    command="sandbox build",
    audit="build",
    takes_key=False,
    fields={
        "agents": {
            "description": f"{''.join(f'`{name}`, `{name}@VERSION`, ' for name in image_agents())}`node`.",
            "maxItems": 10,
        }
    },
)
FOLLOW_BUILD = Operation(
    "follow_build",
    "Show the progress of the build, from a line on. An error after the last line is the reason of a failed build.",
    "GET /v1/sandbox/build",
    BuildView,
    BuildLines,
    audience=_SANDBOXES,
    audit="build",
)
STOP_CONTAINER = Operation(
    "stop_container",
    "Stop a container: that of a workspace, or `default`. The next spawn starts it.",
    "POST /v1/sandbox/containers/{name}/stop",
    DoneView,
    ContainerEnd,
    audience=_SANDBOXES,
    command="sandbox stop WORKSPACE",
    audit="stop",
    takes_key=False,
)
REMOVE_CONTAINER = Operation(
    "remove_container",
    "Remove a container, but not its home. The next spawn makes it anew.",
    "POST /v1/sandbox/containers/{name}/remove",
    DoneView,
    ContainerEnd,
    audience=_SANDBOXES,
    command="sandbox rm WORKSPACE",
    audit="remove",
    takes_key=False,
)
ENTER_CONTAINER = Operation(
    "enter_container",
    "Start a container, and name the command for a shell or a login in it.",
    "POST /v1/sandbox/containers/{name}/enter",
    CommandView,
    ContainerCommand,
    audience=_SANDBOXES,
    command="sandbox shell WORKSPACE",
    audit="enter",
    takes_key=False,
    fields={
        "login": {
            "description": f"{' or '.join(f'`{name}`' for name in login_commands())}: the login of this agent. "
            "Null: a shell."
        }
    },
)
CHECK_PATHS = Operation(
    "writable_paths",
    """Tell which of these paths a sandboxed session of any time could write, also an ended or removed one.

    Git must not run where it would read or write one of them. Every caller of the operator's socket may ask.""",
    "POST /v1/sandbox/writable",
    WritableView,
    CheckedPaths,
    audience=EVERY_CALLER,
    on_host=True,
    takes_key=False,
    fields={"paths": {"maxItems": 1000}},
)
LIST_UNUSED = Operation(
    "unused_things",
    "List the containers, homes and images that a prune would remove.",
    "GET /v1/sandbox/unused",
    list[UnusedView],
    UnusedScope,
    audience=_SANDBOXES,
    audit="prune",
)
PRUNE = Operation(
    "prune_sandboxes",
    "Remove stopped containers without sessions, and homes and images that nothing uses.",
    "POST /v1/sandbox/prune",
    list[UnusedView],
    PruneOptions,
    audience=_SANDBOXES,
    command="sandbox prune",
    audit="prune",
    takes_key=False,
)
