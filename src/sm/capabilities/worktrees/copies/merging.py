"""Merges the changes of a copy into its directory. Nothing changes when that is refused or has conflicts.

A merge that is killed is finished by the next one. Afterwards the state that was merged is the base of the copy.
"""

import fcntl
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sm.capabilities.worktrees.copies.bases import BASE, REMOVAL, TreeEntry, changes_between, copy_base
from sm.capabilities.worktrees.copies.content import content, contents, has_contents, merged_content, stored
from sm.capabilities.worktrees.copies.directories import ChangedMeanwhile, PlainDirectory, blob_name, opened
from sm.capabilities.worktrees.copies.journal import BegunMerge, begin, begun_merge, end
from sm.capabilities.worktrees.copies.three_way import MergePlan, MergeStep, PathConflict, plan_merge
from sm.capabilities.worktrees.git.calls import git, is_in_operation, repository_around
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.present_files import tree_of_files
from sm.capabilities.worktrees.removal_lock import removal_lock
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.repositories import has_commit

AUTHOR = {
    f"GIT_{role}_{what}": f"sm{end}"
    for role in ("AUTHOR", "COMMITTER")
    for what, end in (("NAME", ""), ("EMAIL", "@localhost"))
}
"""Of the commits that keep a base, which no branch of the agent has."""
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class CopyMerge:
    """A finished merge, or one that was only tried. `files`: the paths of the directory that it has changed."""

    directory: str
    files: Sequence[str]


class CopyConflict(IllegalState):
    """The copy and its directory have changed the same. `files`: the paths."""

    def __init__(self, message: str, hint: str, files: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.files = files


class CopyMerger:
    """Merges the copy at `path`, which began at the commit `start`, into the directory that it is a copy of."""

    def __init__(self, path: str, directory: str, start: str | None) -> None:
        self._path = path
        self._directory = directory
        self._start = start

    def try_merge(self) -> CopyMerge | None:
        """Find conflicts, and change nothing. Returns None if there is nothing to merge. Raises as `merge`."""
        with self._opened("") as directory:
            begun = begun_merge(self._path)
            if begun is not None:
                return CopyMerge(self._directory, [step.path for step in begun.steps])
            _, plan = self._planned(directory)
        return CopyMerge(self._directory, [step.path for step in plan.steps]) if plan.steps else None

    def merge(self) -> CopyMerge | None:
        """Merge. Returns None if there is nothing to merge.

        Raises CopyConflict, IllegalState, and ExternalError for what cannot be read or written.
        """
        with self._kept():
            return self._merged()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Let no command remove the copy meanwhile."""
        with ExitStack() as stack:
            try:
                stack.enter_context(removal_lock(self._path))
            except IllegalState as error:
                raise IllegalState(
                    f"cannot merge {folded(self._path, 4096)}: {error.message}", "try again when it has ended"
                ) from None
            yield

    def _merged(self) -> CopyMerge | None:
        files = list[str]()
        begun = begun_merge(self._path)
        if begun is not None and not self._can_finish(begun):
            end(self._path)
        elif begun is not None:
            with self._opened(begun.temporary) as directory:
                files += self._finish(directory, begun)
        temporary = f".sm-merge-{os.urandom(8).hex()}"
        with self._opened(temporary) as directory:
            base, plan = self._planned(directory)
            merge = BegunMerge(base, temporary, plan.steps)
            if plan.steps:
                begin(self._path, merge)
            files += self._finish(directory, merge)
        return CopyMerge(self._directory, list(dict.fromkeys(files))) if files else None

    @contextmanager
    def _opened(self, temporary: str) -> Iterator[PlainDirectory]:
        """The directory, for this process alone."""
        where = folded(self._directory, 4096)
        try:
            lock = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise IllegalState(f"cannot merge in {where}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with opened(self._directory, temporary) as directory:
                yield directory
        except BlockingIOError:
            raise IllegalState(f"another merge goes on in {where}", "try again when it has ended") from None
        except OSError as error:
            name = folded(os.fsdecode(error.filename or ""), 200)
            raise ExternalError(
                f"cannot merge in {where}: {f'{name}: ' if name else ''}{error.strerror}",
                "what was merged stays; the next sm merge finishes the rest",
            ) from None
        finally:
            os.close(lock)

    def _planned(self, directory: PlainDirectory) -> tuple[str, MergePlan]:
        """The next base, and what to do. Raises CopyConflict."""
        path = self._path
        base = copy_base(path, self._start)
        if os.path.lexists(f"{path}/.git/{REMOVAL}"):
            raise IllegalState(
                f"the removal of {folded(path, 4096)} has begun, so that files are missing there",
                "to finish it: sm worktree prune",
            )
        repository = repository_around(path)
        if is_in_operation(repository.own):
            raise IllegalState(
                f"a rebase, merge, cherry-pick or bisect is in progress in {folded(path, 4096)}",
                f"git -C {shlex.quote(folded(path, 4096))} status",
            )
        if hidden := hidden_changes(path):
            raise IllegalState(
                f"git was told not to look at changes in {folded(path, 4096)}: {_named(hidden)}",
                f"git -C {shlex.quote(folded(path, 4096))} update-index --no-assume-unchanged --no-skip-worktree FILE",
            )
        tree = tree_of_files(path)

        def combine(changed: str, before: TreeEntry | None, ours: TreeEntry, after: TreeEntry) -> str | None:
            mine = directory.content(changed)
            if blob_name(mine) != ours.oid:  # it changes right now
                return None
            base_content = b"" if before is None else content(path, before.oid)
            merged = merged_content(base_content, mine, content(path, after.oid))
            return None if merged is None else stored(path, merged)

        plan = plan_merge(changes_between(path, base, tree), directory.look, combine)
        if plan.conflicts:
            raise self._conflict(plan.conflicts)
        return _next_base(path, base, tree, has_head=has_commit(repository)), plan

    def _can_finish(self, begun: BegunMerge) -> bool:
        """False if somebody has deleted what only the merge needed, as `git gc --prune=now` does."""
        oids = [step.after.oid for step in begun.steps if step.after is not None]
        return has_contents(self._path, [begun.base, *oids])

    def _finish(self, directory: PlainDirectory, begun: BegunMerge) -> list[str]:
        """Change the files, and move the base. Returns the paths. Leaves those alone that have changed meanwhile.

        Raises IllegalState if there are any: the base stays, so that the next merge looks at all of them again.
        """
        done, changed = list[str](), list[str]()
        if copy_base(self._path, self._start) != begun.base:
            for step, data, mode in self._with_contents(begun.steps):
                directory.clear(step.path)
                try:
                    if _change(directory, step, data, mode):
                        done.append(step.path)
                except ChangedMeanwhile:
                    changed.append(step.path)
            if not changed:
                git(self._path, "update-ref", BASE, begun.base)
        end(self._path)
        if changed:
            raise IllegalState(
                f"{_named(changed)} in {folded(self._directory, 4096)} changed while the merge went on, and was left "
                "as it is",
                "merge again",
            )
        return done

    def _with_contents(self, steps: Sequence[MergeStep]) -> Iterator[tuple[MergeStep, bytes, int | None]]:
        """The steps, deletions first, with the contents and the permissions of files of the copy."""
        by_content = dict[str, list[MergeStep]]()
        for step in steps:
            if step.after is None:
                yield step, b"", None
            else:
                by_content.setdefault(step.after.oid, []).append(step)
        with opened(self._path, "") as copy:
            for oid, data in contents(self._path, by_content):
                for step in by_content[oid]:
                    mode = copy.mode(step.path)
                    yield step, data, None if mode is None else mode & 0o777

    def _conflict(self, conflicts: Sequence[PathConflict]) -> CopyConflict:
        where, first = folded(self._directory, 4096), conflicts[0].path
        shown = ", ".join(f"{folded(c.path, 200)} ({folded(c.why, 300)})" for c in conflicts[:_SHOWN_MAX])
        more = f" and {len(conflicts) - _SHOWN_MAX} more" if len(conflicts) > _SHOWN_MAX else ""
        ours, theirs = (shlex.quote(folded(f"{top}/{first}", 4096)) for top in (self._directory, self._path))
        return CopyConflict(
            f"cannot merge {folded(self._path, 4096)} in {where}: conflicts in {shown}{more}; nothing was changed",
            f"give the file in the copy the changes of both, or make both the same: diff -u {ours} {theirs}",
            [conflict.path for conflict in conflicts],
        )


def _change(directory: PlainDirectory, step: MergeStep, data: bytes, mode: int | None) -> bool:
    """Do a step. Returns False if an earlier merge has done it. Raises ChangedMeanwhile."""
    found = directory.look(step.path)
    if step.after is None:
        if not isinstance(found, TreeEntry):
            return False
        if step.before is None:
            raise ChangedMeanwhile(step.path)
        directory.delete(step.path, step.before)
        return True
    if found == step.after:
        return False
    directory.write(step.path, step.before, step.after, data, mode)
    return True


def _next_base(path: str, base: str, tree: str, *, has_head: bool) -> str:
    """A commit with the present files, from which the commits of the agent can be reached."""
    if has_head:
        head = git(path, "rev-parse", "--verify", "HEAD^{commit}")
        if git(path, "rev-parse", "--verify", f"{head}^{{tree}}") == tree:
            return head
    if git(path, "rev-parse", "--verify", f"{base}^{{tree}}") == tree:
        return base
    parents = ["-p", head] if has_head else ["-p", base]
    return git(path, "commit-tree", tree, *parents, "-m", "merged by sm", variables=AUTHOR)


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(folded(path, 200) for path in paths[:_SHOWN_MAX]) + more
