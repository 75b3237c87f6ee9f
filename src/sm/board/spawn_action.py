"""The action that starts an agent: its fields, its request and its command. Pure."""

from collections.abc import Iterator, Mapping

from sm.board.board_action import ActionInput, ApiCall, BoardAction, FieldKind, InputField, Target
from sm.board.operation_actions import options
from sm.operations.session_operations import SPAWN

WORKTREE, COPY = "worktree", "copy"
PLACE = InputField(
    "place",
    "Works in",
    FieldKind.CHOICE,
    choices=(("", "the directory"), (WORKTREE, "a new git worktree"), (COPY, "a copy (no git)")),
)
_OF_WORKTREE = (PLACE.name, WORKTREE)
_TREE_FIELDS = (
    InputField("branch", "Branch", hint="existing or new; default: sm/NAME", shown_with=_OF_WORKTREE),
    InputField("base", "Base", hint="default: what is checked out", shown_with=_OF_WORKTREE),
    InputField(
        "pr",
        "Pull request",
        FieldKind.NUMBER,
        hint="its number; begins with its head",
        shown_with=_OF_WORKTREE,
        is_rare=True,
    ),
    InputField(
        "remote_branch",
        "Remote branch",
        hint="to follow, such as origin/topic",
        shown_with=_OF_WORKTREE,
        is_rare=True,
    ),
    InputField(
        "remote", "Remote", hint="default: origin, or the only one", shown_with=_OF_WORKTREE, is_rare=True
    ),
)
_KEYS = {"pr": "pull_request"}
"""The keys of the body that have another name than their fields."""
_OTHERS = ("model", "budget", "parent")
"""Fields that are options of the command, and keys of the body."""
NAME = InputField("name", "Name", hint="optional")


def _call(target: Target, words: ActionInput) -> ApiCall:
    given = words.fields
    body = {
        "agent_type": given.get("agent_type", ""),
        "prompt": given.get("prompt"),
        "name": given.get("name"),
        "workspace": given.get("workspace", target.workspace),
        "working_dir": given.get("working_dir"),
        "cwd": target.cwd or None,
        **{name: given[name] for name in _OTHERS if name in given},
        **dict(_tree(given)),
        **({"files": list(words.files)} if words.files else {}),
    }
    return ApiCall(SPAWN.path, body, is_long=True)


def _tree(given: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """The keys of the body for a directory of the agent's own."""
    if given.get(PLACE.name) == WORKTREE:
        yield "new_worktree", True
    elif given.get(PLACE.name) == COPY:
        yield "new_copy", True
    for field in _TREE_FIELDS:
        if field.name in given:  # the daemon refuses the ones that do not fit
            value = given[field.name]
            yield _KEYS.get(field.name, field.name), int(value) if field.kind is FieldKind.NUMBER else value


def _command(target: Target, words: ActionInput) -> tuple[str, ...]:
    given = words.fields
    texts = (given.get("agent_type", "TYPE"), *((given["prompt"],) if "prompt" in given else ()))
    workspace = given.get("workspace", target.workspace)
    return (
        *("sm", "spawn", *options(given, "name", "working_dir")),
        *((f"--{given[PLACE.name]}",) if PLACE.name in given else ()),
        *options(given, *(field.name for field in _TREE_FIELDS), *_OTHERS),
        *(("--workspace", workspace) if workspace else ()),
        *(("--",) if any(text.startswith("-") for text in texts) else ()),
        *texts,
    )


def _directory(target: Target) -> str:
    if target.workspace is not None:  # the daemon takes that of the workspace
        return ""
    return target.cwd or (str(target.row.data["working_dir"]) if target.row is not None else "")


SPAWN_ACTION = BoardAction(
    "spawn",
    SPAWN.key,
    SPAWN.title,
    lambda target: None,
    _command,
    _call,
    needs_session=False,
    fields=(
        InputField(
            "prompt",
            "Task",
            FieldKind.LONG_TEXT,
            hint="optional; without it the agent waits for a message",
        ),
        InputField("agent_type", "Agent type", FieldKind.AGENT_TYPE, required=True),
        InputField("working_dir", "Directory", FieldKind.DIRECTORY, default=_directory),
        PLACE,
        *(field for field in _TREE_FIELDS if not field.is_rare),
        InputField("model", "Model", FieldKind.MODEL, hint="default: that of the agent type"),
        InputField("budget", "Budget", hint="such as usd=5,minutes=90"),
        InputField("parent", "Parent", FieldKind.SESSION, hint="default: you"),
        NAME,
        *(field for field in _TREE_FIELDS if field.is_rare),
        InputField(
            "workspace",
            "Workspace",
            FieldKind.WORKSPACE,
            hint="default: that of the directory; - for none",
            is_rare=True,
        ),
    ),
    fields_of_errors={
        "unknown_agent_type": "agent_type",
        "config": "agent_type",
        "bypass_not_accepted": "agent_type",
        "program_missing": "agent_type",
        "path_refused": "working_dir",
        "directory_not_trusted": "working_dir",
        "name_taken": "name",
        "text_refused": "prompt",
    },
)
