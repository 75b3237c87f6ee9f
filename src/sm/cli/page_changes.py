"""The process that reads a session's changes for `sm web`: `python -m sm.cli.page_changes`.

It runs git as the user who started `sm web`, as `sm diff` does, with the same refusals. Its stdin is the task in JSON.
Its stdout has two lines of JSON: what the server needs to know, or an `error`, and the answer for the browser. SIGTERM
ends the process, with the git that it runs and the files that it has made.
"""

import base64
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from sm.capabilities.reviews.shown_changes import shown_path
from sm.capabilities.worktrees.change_counts import change_counts
from sm.capabilities.worktrees.file_patches import (
    FILES_MAX,
    ChangedFile,
    all_patches,
    changed_files,
    one_patch,
    sizes_of,
)
from sm.capabilities.worktrees.git.calls import git_bytes, time_limit
from sm.capabilities.worktrees.git.submodules import hidden_changes_warning
from sm.capabilities.worktrees.reviewed_trees import head_of, is_kept, keep_tree, present_tree
from sm.capabilities.worktrees.work import Work, work_of
from sm.client.http import Client
from sm.core.lines import JsonObject
from sm.core.patches import RawPatch, read_patch
from sm.core.quotation import visible
from sm.errors import ExternalError, IllegalState, LimitReached, NotFound, SmError
from sm.linux.processes import descendants
from sm.wire import decode, encode

_WITHIN_S = 60.0
_PICTURE_MAX = 3 << 20
"""The bytes of a picture."""
_PICTURES = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
Task = Mapping[str, Any]
Answer = tuple[JsonObject, JsonObject]
"""The facts that the server needs, and the answer for the browser."""


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(int(_WITHIN_S) + 5)  # also when git writes and nobody reads
    task: JsonObject = decode(sys.stdin.buffer.read().decode())
    try:
        with time_limit(_WITHIN_S):
            work = work_of(Client(task["socket"]), task["session"])
            head, body = _ACTS[task["act"]](work, task)
    except SmError as error:
        hint = None if error.hint is None else str(error.hint)
        head, body = {"error": {"code": error.code, "message": error.message, "hint": hint}}, {}
    sys.stdout.write(f"{encode(head)}\n{encode(body)}")


def _end(*_: object) -> NoReturn:
    # `subprocess` ends a git that it waits for, but not one that it is just starting.
    for pid in descendants([os.getpid()]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    raise SystemExit(1)  # removes temporary directories


def _changes(work: Work, task: Task) -> Answer:
    """All changes since `task["base"]`, or since the work began if that is empty."""
    base = task["base"] or work.base
    if task["base"] and not is_kept(work, base):
        raise IllegalState("the repository has lost what you reviewed", "look at all changes")
    tree = present_tree(work)
    files = changed_files(work.top, base, tree)
    shown = files[:FILES_MAX]
    patches = all_patches(work.top, base, tree, shown)
    binary = [blob for file in shown if file.added is None for blob in file.blobs]
    sizes = sizes_of(work.top, binary)
    return {"base": base, "tree": tree}, {
        "branch": work.branch,
        "directory": visible(work.top),
        "warning": hidden_changes_warning(work.top),
        "count": len(files),
        "added": sum(file.added or 0 for file in files),
        "deleted": sum(file.deleted or 0 for file in files),
        "files": [_file(file, patch, sizes) for file, patch in zip(shown, patches, strict=True)],
    }


def _counts(work: Work, task: Task) -> Answer:
    counts = change_counts(work)
    return {}, {"count": counts.files, "added": counts.added, "deleted": counts.deleted}


def _file(file: ChangedFile, patch: RawPatch | None, sizes: Mapping[str, int]) -> JsonObject:
    path = _shown(file.path)
    return {
        "path": path,
        "old_path": _shown(file.old_path) if file.old_path != file.path else None,
        # The name by which `sm review` knows a file is the one that git writes.
        "name": path if patch is None else _name(patch) or path,
        "status": file.status,
        "modes": [file.old_mode, file.new_mode],
        "added": file.added,
        "deleted": file.deleted,
        "sizes": [sizes.get(blob) for blob in file.blobs],
        "patch": None if patch is None else _text(patch),
    }


def _shown(path: bytes) -> str:
    return visible(path.decode("utf-8", "replace"))


def _text(patch: RawPatch) -> str:
    return patch.text.decode("utf-8", "replace")


def _name(patch: RawPatch) -> str | None:
    header = patch.text.partition(b"\n@@")[0]
    return next(map(shown_path, read_patch(header.split(b"\n"))), None)


def _one_file(work: Work, task: Task) -> Answer:
    """A file that the list of changes has without its lines, or with all of its lines."""
    file = _found(work, task)
    patch = one_patch(work.top, task["base"], task["tree"], file, is_whole=task["whole"])
    return {}, {"patch": _text(patch), "name": _name(patch)}


def _pictures(work: Work, task: Task) -> Answer:
    """The contents of a picture before and after, each with its type; None where there is none."""
    file = _found(work, task)
    sizes = sizes_of(work.top, file.blobs)
    if any(size > _PICTURE_MAX for size in sizes.values()):
        raise LimitReached(f"the picture has more than {_PICTURE_MAX >> 20} MiB")
    return {}, {"pictures": [_picture(work, blob) if blob in sizes else None for blob in file.blobs]}


def _picture(work: Work, blob: str) -> JsonObject | None:
    content = git_bytes(work.top, "cat-file", "blob", blob)
    kind = next((kind for start, kind in _PICTURES if content.startswith(start)), None)
    if kind is None and content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    return None if kind is None else {"type": kind, "content": base64.b64encode(content).decode("ascii")}


def _found(work: Work, task: Task) -> ChangedFile:
    """The file by its number. A caller names no path, so that nothing but the changes can be read."""
    files: Sequence[ChangedFile] = changed_files(work.top, task["base"], task["tree"])[:FILES_MAX]
    if not 0 <= task["file"] < len(files):
        raise NotFound("there is no such file in the changes")
    return files[task["file"]]


def _keep(work: Work, task: Task) -> Answer:
    """Keep the state that a person has reviewed."""
    if not is_kept(work, task["tree"]):
        raise ExternalError("the repository has lost the changes that you reviewed", "load them again")
    keep_tree(work, task["tree"])
    return {"head": head_of(work)}, {}


_ACTS: Mapping[str, Callable[[Work, Task], Answer]] = {
    "changes": _changes,
    "counts": _counts,
    "file": _one_file,
    "pictures": _pictures,
    "keep": _keep,
}

if __name__ == "__main__":
    main()
