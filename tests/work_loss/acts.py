"""The things that agents and the person do in a repository, each by hand with git.

An act has numbers of its own, by which it chooses among what is there, so that it can be played again without the acts
before it.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress

from sm.core.dataclass import dataclass
from tests.work_loss.places import STAGED, run_git

BRANCHES = ("other", "release", "feature/x")
_FILES = ("f0", "f1", "d/f2", "d/f3")


@dataclass(frozen=True, slots=True)
class Act:
    """One step of a sequence. `numbers`: the choices."""

    kind: str
    numbers: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kind}{self.numbers}"


class Hand:
    """Works in one directory, that of an agent or of the person. `change`: makes the word of a new change."""

    def __init__(
        self, top: str, main: str, branch: str, numbers: tuple[int, int, int], change: Callable[[], str]
    ) -> None:
        self.top = top
        self.main = main
        self.branch = branch
        self.numbers = numbers
        self.change = change

    def git(self, *arguments: str, at: str | None = None) -> bool:
        return run_git(at or self.top, *arguments).returncode == 0

    @property
    def file(self) -> str:
        return _FILES[self.numbers[0] % len(_FILES)]

    @property
    def other(self) -> str:
        return BRANCHES[self.numbers[1] % len(BRANCHES)]

    def write(self, name: str, at: str | None = None) -> None:
        """Add a line with a new change to a file, at its end or at its beginning."""
        path = f"{at or self.top}/{name}"
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
                before = file.read()
                if self.numbers[2] % 2:
                    with open(path, "w", encoding="utf-8") as new:
                        new.write(f"{self.change()}\n{before}")
                    return
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{self.change()}\n")

    def commit(self, at: str | None = None) -> None:
        self.git("commit", "-q", "-a", "--no-verify", "-m", "work", at=at)


def commit(hand: Hand) -> None:
    hand.write(hand.file)
    hand.git("add", hand.file)
    hand.commit()


def edit(hand: Hand) -> None:
    hand.write(hand.file)


def add(hand: Hand) -> None:
    hand.write(hand.file)
    hand.git("add", hand.file)


def stage_and_delete(hand: Hand) -> None:
    hand.write(hand.file)
    hand.git("add", hand.file)
    with suppress(OSError):
        os.unlink(f"{hand.top}/{hand.file}")
    own = run_git(hand.top, "rev-parse", "--absolute-git-dir").stdout.strip()
    with suppress(OSError), open(f"{own}/{STAGED}", "w"):
        pass


def delete_file(hand: Hand) -> None:
    with suppress(OSError):
        os.unlink(f"{hand.top}/{hand.file}")


def rename_file(hand: Hand) -> None:
    hand.git("mv", hand.file, f"moved{hand.numbers[1] % 3}")


def untracked(hand: Hand) -> None:
    hand.write(f"new{hand.numbers[0] % 3}")


def untracked_directory(hand: Hand) -> None:
    hand.write(f"newdir/sub/new{hand.numbers[0] % 3}")


def ignored(hand: Hand) -> None:
    hand.write(f"{('a', 'd/b')[hand.numbers[0] % 2]}.ign")


def shared(hand: Hand) -> None:
    """Write into the directory that is linked into each worktree."""
    hand.write("shared/cache")


def hidden_edit(hand: Hand) -> None:
    flag = ("--assume-unchanged", "--skip-worktree")[hand.numbers[1] % 2]
    hand.git("update-index", flag, hand.file)
    hand.write(hand.file)


def force_add_ignored(hand: Hand) -> None:
    hand.write("tracked.ign")
    hand.git("add", "-f", "tracked.ign")
    hand.commit()


def stash(hand: Hand) -> None:
    hand.write(hand.file)
    hand.git("stash", "-q", *(["-u"] if hand.numbers[1] % 2 else []))


def _nested(hand: Hand) -> str:
    return f"{hand.top}/{('vendor/lib', 'lib', 'build.ign/lib')[hand.numbers[0] % 3]}"


def nested(hand: Hand) -> None:
    """Make a repository in the directory, or go on in it."""
    place = _nested(hand)
    with suppress(OSError):
        os.makedirs(place, exist_ok=True)
    if not os.path.lexists(f"{place}/.git"):
        hand.git("init", "-q", "--template=", at=place)
    hand.write("n", place)
    hand.git("add", "n", at=place)
    if hand.numbers[1] % 4:
        hand.commit(place)
    if hand.numbers[1] % 4 == 2:
        hand.git("checkout", "-q", "--detach", at=place)
    if hand.numbers[1] % 4 == 3:
        hand.write("n", place)
        hand.git("stash", "-q", at=place)


def nested_bare(hand: Hand) -> None:
    place = f"{hand.top}/{('vendor/bare.git', 'bare.git')[hand.numbers[0] % 2]}"
    hand.git("clone", "-q", "--bare", "--template=", hand.main, place, at="/")


def clone_inside(hand: Hand) -> None:
    """Clone the repository itself into the directory, and commit there."""
    place = f"{hand.top}/vendor/clone"
    hand.git("clone", "-q", "--template=", hand.main, place, at="/")
    hand.write(hand.file, place)
    if hand.numbers[1] % 3:
        hand.git("add", ".", at=place)
        hand.commit(place)
    if hand.numbers[1] % 3 == 2:
        hand.git("push", "-q", "origin", f"HEAD:refs/heads/{hand.other}", at=place)


def worktree_inside(hand: Hand) -> None:
    place = f"{hand.top}/vendor/tree" if hand.numbers[0] % 2 else f"{hand.top}-by-hand"
    hand.git("worktree", "add", "-q", *(["--detach"] if hand.numbers[1] % 2 else []), place)
    hand.write(hand.file, place)
    if hand.numbers[2] % 2:
        hand.git("add", ".", at=place)
        hand.commit(place)


def fill_submodule(hand: Hand) -> None:
    hand.git("submodule", "--quiet", "update", "--init")


def hide_in_submodule(hand: Hand) -> None:
    """Work in the submodule that `git status` there does not show."""
    place = f"{hand.top}/sub"
    if not os.path.lexists(f"{place}/.git"):
        fill_submodule(hand)
    if not os.path.lexists(f"{place}/.git"):
        return
    if hand.numbers[0] % 2:
        hand.git(
            "update-index", ("--assume-unchanged", "--skip-worktree")[hand.numbers[1] % 2], "s", at=place
        )
        hand.write("s", place)
    else:
        inside = f"{place}/vendor/lib"
        os.makedirs(inside, exist_ok=True)
        hand.git("init", "-q", "--template=", at=inside)
        hand.write("n", inside)
        hand.git("add", "n", at=inside)
        hand.commit(inside)


def hide_in_nested(hand: Hand) -> None:
    place = f"{hand.top}/vendor/hidden"
    hand.git("clone", "-q", "--template=", hand.main, place, at="/")
    hand.git("update-index", "--assume-unchanged", "f0", at=place)
    hand.write("f0", place)


def revert(hand: Hand) -> None:
    hand.git("revert", "--no-edit", "HEAD") or hand.git("revert", "--abort")


def directory_to_file(hand: Hand) -> None:
    """Commit a file in place of a directory."""
    if os.path.isdir(f"{hand.top}/d"):
        hand.git("rm", "-q", "-r", "-f", "d")
        if not os.path.lexists(f"{hand.top}/d"):
            hand.write("d")
            hand.git("add", "d")
            hand.commit()


def pack_refs(hand: Hand) -> None:
    hand.git("pack-refs", "--all")


def work_in_submodule(hand: Hand) -> None:
    place = f"{hand.top}/sub"
    if not os.path.lexists(f"{place}/.git"):
        if hand.numbers[0] % 4 == 0:
            hand.write("s", place)  # into the empty directory
            return
        fill_submodule(hand)
    if not os.path.lexists(f"{place}/.git"):
        return
    hand.write("s", place)
    if hand.numbers[0] % 3:
        hand.git("add", "s", at=place)
        hand.commit(place)
    if hand.numbers[1] % 3 == 0:
        hand.git("add", "sub")
        hand.commit()
    if hand.numbers[1] % 3 == 1:
        hand.write("s", place)
        hand.git("stash", "-q", at=place)
    if hand.numbers[2] % 3 == 0:
        hand.git("push", "-q", "origin", f"HEAD:refs/heads/pushed{hand.numbers[2]}", at=place)


def rename_branch(hand: Hand) -> None:
    hand.git("branch", "-m", f"renamed{hand.numbers[0] % 2}")


def delete_branch(hand: Hand) -> None:
    hand.git("checkout", "-q", "--detach")
    hand.git("branch", "-q", "-D", hand.branch)


def delete_ref(hand: Hand) -> None:
    hand.git("update-ref", "-d", f"refs/heads/{hand.branch}")


def move_branch(hand: Hand) -> None:
    """Let the own branch be at another commit, and HEAD where it was."""
    hand.git("checkout", "-q", "--detach")
    hand.git("branch", "-q", "-f", hand.branch, ("main", hand.other)[hand.numbers[0] % 2])


def detach(hand: Hand) -> None:
    hand.git("checkout", "-q", "--detach")


def switch_branch(hand: Hand) -> None:
    hand.git("checkout", "-q", hand.other) or hand.git("checkout", "-q", "-b", hand.other)


def switch_back(hand: Hand) -> None:
    hand.git("checkout", "-q", hand.branch)


def orphan(hand: Hand) -> None:
    hand.git("checkout", "-q", "--orphan", hand.other)


def tag(hand: Hand) -> None:
    hand.git("tag", "-f", f"t{hand.numbers[0] % 2}")


def own_ref(hand: Hand) -> None:
    hand.git("update-ref", ("refs/worktree/mine", "refs/hidden/mine")[hand.numbers[0] % 2], "HEAD")
    if hand.numbers[1] % 2:
        hand.git("reset", "-q", "--hard", "HEAD~1")


def copy_branch(hand: Hand) -> None:
    hand.git("branch", "-q", hand.other)


def merge_main(hand: Hand) -> None:
    hand.git("merge", "-q", "--no-edit", "main") or hand.numbers[0] % 2 or hand.git("merge", "--abort")


def rebase_on_main(hand: Hand) -> None:
    hand.git("rebase", "-q", "main") or hand.numbers[0] % 2 or hand.git("rebase", "--abort")


def stopped_rebase(hand: Hand) -> None:
    hand.git("rebase", "-q", "--exec", "false", "HEAD~1")


def bisect(hand: Hand) -> None:
    hand.git("bisect", "start", "HEAD", "HEAD~1")


def amend(hand: Hand) -> None:
    hand.write(hand.file)
    hand.git("commit", "-q", "-a", "--amend", "--no-edit")


def cherry_pick(hand: Hand) -> None:
    hand.git("cherry-pick", hand.branch, at=hand.main) or hand.git("cherry-pick", "--abort", at=hand.main)


def merge_by_hand(hand: Hand) -> None:
    words = ("--squash",) if hand.numbers[0] % 2 else ("--no-edit",)
    if not hand.git("merge", "-q", *words, hand.branch, at=hand.main):
        hand.git("reset", "-q", "--merge", at=hand.main)
    elif hand.numbers[0] % 2:
        hand.git("commit", "-q", "-m", "squashed", at=hand.main)


def revert_in_main(hand: Hand) -> None:
    hand.git("revert", "--no-edit", "HEAD", at=hand.main) or hand.git("revert", "--abort", at=hand.main)


def delete_other_branch(hand: Hand) -> None:
    hand.git("branch", "-q", "-D", hand.other)


def move_tree(hand: Hand) -> None:
    """Move the worktree away: by git, or so that git does not know."""
    if hand.numbers[0] % 2:
        hand.git("worktree", "move", hand.top, f"{hand.top}-moved", at=hand.main)
    else:
        with suppress(OSError):
            os.rename(hand.top, f"{hand.top}-moved")


def link_tree(hand: Hand) -> None:
    """Move the worktree away, and leave a link to it."""
    with suppress(OSError):
        os.rename(hand.top, f"{hand.top}-linked")
        os.symlink(f"{hand.top}-linked", hand.top)


def delete_tree(hand: Hand) -> None:
    shutil.rmtree(hand.top, ignore_errors=True)


def replace_git(hand: Hand) -> None:
    """Let the worktree be a repository of its own."""
    with suppress(OSError):
        os.rename(f"{hand.top}/.git", f"{hand.top}/.git-before")
        hand.git("init", "-q", "--template=")
        commit(hand)


def lock_tree(hand: Hand) -> None:
    hand.git("worktree", "lock", hand.top)


def sparse(hand: Hand) -> None:
    hand.git("sparse-checkout", "set", "--cone", "d")
    hand.write("f0")  # outside of what is checked out


def settings(hand: Hand) -> None:
    """Settings of the repository that hide work."""
    key, value = (
        ("status.showUntrackedFiles", "no"),
        ("diff.ignoreSubmodules", "all"),
        ("submodule.sub.ignore", "all"),
        ("core.excludesFile", f"{hand.main}/.gitignore-more"),
        ("core.fileMode", "false"),
    )[hand.numbers[0] % 5]
    with open(f"{hand.main}/.gitignore-more", "w", encoding="utf-8") as file:
        file.write("new*\n")
    hand.git("config", key, value)


AGENT_ACTS: dict[str, tuple[int, Callable[[Hand], object]]] = {
    "commit": (14, commit),
    "edit": (4, edit),
    "add": (2, add),
    "stage and delete": (2, stage_and_delete),
    "delete a file": (1, delete_file),
    "rename a file": (1, rename_file),
    "untracked": (3, untracked),
    "untracked directory": (2, untracked_directory),
    "ignored": (2, ignored),
    "shared": (2, shared),
    "hidden edit": (2, hidden_edit),
    "force add": (1, force_add_ignored),
    "stash": (3, stash),
    "nested": (4, nested),
    "nested bare": (1, nested_bare),
    "clone inside": (2, clone_inside),
    "worktree inside": (2, worktree_inside),
    "submodule": (0, work_in_submodule),
    "hide in the submodule": (0, hide_in_submodule),
    "hide in a nested repository": (1, hide_in_nested),
    "revert": (2, revert),
    "directory to file": (2, directory_to_file),
    "pack refs": (1, pack_refs),
    "rename the branch": (2, rename_branch),
    "delete the branch": (2, delete_branch),
    "delete the ref": (1, delete_ref),
    "move the branch": (2, move_branch),
    "detach": (4, detach),
    "switch branch": (3, switch_branch),
    "switch back": (2, switch_back),
    "orphan": (1, orphan),
    "tag": (1, tag),
    "own ref": (1, own_ref),
    "copy the branch": (2, copy_branch),
    "merge main": (2, merge_main),
    "rebase": (2, rebase_on_main),
    "stopped rebase": (1, stopped_rebase),
    "bisect": (1, bisect),
    "amend": (1, amend),
    "cherry-pick in main": (2, cherry_pick),
    "merge by hand": (3, merge_by_hand),
    "revert in main": (1, revert_in_main),
    "delete another branch": (1, delete_other_branch),
    "move the tree": (1, move_tree),
    "link the tree": (1, link_tree),
    "delete the tree": (2, delete_tree),
    "replace .git": (1, replace_git),
    "lock the tree": (1, lock_tree),
    "sparse": (1, sparse),
    "settings": (1, settings),
}
"""By name, with the weight of the choice. That of submodules is another one in a repository that has one."""

PERSON_ACTS = (
    "commit", "commit", "commit", "edit", "add", "untracked", "ignored", "shared", "stash", "detach", "switch branch",
    "copy the branch", "tag", "hidden edit", "rename a file", "stopped rebase", "nested", "submodule",
)  # fmt: skip
"""The acts of the person in the main directory."""
