"""Merges of copies into their directories: any trees, any moment of a kill, any change of a person meanwhile."""

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sm.capabilities.worktrees.copies.bases import Change, TreeEntry
from sm.capabilities.worktrees.copies.content import resolved
from sm.capabilities.worktrees.copies.directories import PlainDirectory, blob_name, opened
from sm.capabilities.worktrees.copies.journal import BegunMerge, begin
from sm.capabilities.worktrees.copies.merging import CopyConflict, CopyMerger
from sm.capabilities.worktrees.copies.three_way import (
    Found,
    MergePlan,
    MergeStep,
    PathObstacle,
    Subdirectory,
    is_possible,
    plan_merge,
)
from sm.capabilities.worktrees.git.long_commands import Cancelled
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.copy_planning import plan_copy
from sm.capabilities.worktrees.making.copying import make_copy, remove_copy_remains
from sm.capabilities.worktrees.making.file_copies import FileCopies
from sm.capabilities.worktrees.model import MadeTree, PlannedTree, TreeWish
from sm.capabilities.worktrees.rules import PLACE
from sm.errors import ExternalError, IllegalState
from tests.git_repositories import git

Tree = Mapping[str, str]
"""The contents of files by path. A content that begins with `->` is that of a link."""

NAMES = ("a", "b", "a/b", "a/c", "a/b/d", "e/f")
TEXTS = ("1", "2", "3", "->1")


def is_tree(tree: Tree) -> bool:
    """True if no file is in the place of a directory."""
    return not any(other.startswith(f"{path}/") for path in tree for other in tree)


trees = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=5).filter(is_tree)


def entry(text: str | None) -> TreeEntry | None:
    if text is None:
        return None
    return TreeEntry("120000" if text.startswith("->") else "100644", text)


def looked(tree: Tree) -> Callable[[str], Found]:
    def look(path: str) -> Found:
        if path in tree:
            return entry(tree[path])
        if below := [name for name in tree if name.startswith(f"{path}/")]:
            return Subdirectory(below)
        above = [name for name in tree if path.startswith(f"{name}/")]
        return PathObstacle(above[0], is_link=tree[above[0]].startswith("->")) if above else None

    return look


def planned(base: Tree, ours: Tree, theirs: Tree) -> MergePlan:
    changes = [
        Change(path, entry(base.get(path)), entry(theirs.get(path)))
        for path in sorted({*base, *theirs})
        if base.get(path) != theirs.get(path)
    ]
    return plan_merge(changes, looked(ours), lambda *_: None)


def carried_out(ours: Tree, plan: MergePlan) -> dict[str, str]:
    """Do the steps as a file system would. Fails if one of them is impossible at its time."""
    found = dict(ours)
    for step in plan.steps:
        assert entry(found.get(step.path)) == step.before
        if step.after is None:
            del found[step.path]
        else:
            found[step.path] = step.after.oid
            assert is_tree(found)
    return found


@settings(max_examples=600, deadline=None)
@given(trees, trees, trees)
def test_result_has_the_changes_of_both_sides_or_is_refused(base: Tree, ours: Tree, theirs: Tree) -> None:
    plan = planned(base, ours, theirs)
    if plan.conflicts:
        assert not plan.steps
        # Never without a reason: some path of this name, or around it, was changed on both sides.
        for conflict in plan.conflicts:
            near = {
                p
                for p in NAMES
                if f"{p}/".startswith(f"{conflict.path}/") or f"{conflict.path}/".startswith(f"{p}/")
            }
            assert any(base.get(path) != ours.get(path) for path in near)
        return
    result = carried_out(ours, plan)
    for path in NAMES:
        in_base, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if mine == in_base:
            assert result.get(path) == other or (path not in theirs and path not in result)
        elif other == in_base:
            assert result.get(path) == mine
        else:
            assert mine == other == result.get(path) or (other is None and mine is None)


@given(trees, trees)
def test_merge_into_an_unchanged_directory_makes_it_as_the_copy(base: Tree, theirs: Tree) -> None:
    plan = planned(base, base, theirs)
    assert not plan.conflicts
    assert carried_out(base, plan) == theirs
    assert planned(base, theirs, theirs).steps == []


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a//b",
        "../a",
        "a/../b",
        "./a",
        ".git/config",
        "a/.GIT/x",
        ".hg/store",
        ".sm/worktrees/b/c",
        "a\0b",
    ],
)
def test_paths_outside_or_of_others_are_impossible(path: str) -> None:
    assert not is_possible(path)
    step = plan_merge([Change(path, None, TreeEntry("100644", "x"))], lambda _: None, lambda *_: None)
    assert len(step.conflicts) == 1


def test_repository_inside_is_a_conflict() -> None:
    change = Change("lib", None, TreeEntry("160000", "x"))
    assert (
        plan_merge([change], lambda _: None, lambda *_: None).conflicts[0].why
        == "it is a git repository of its own"
    )


def test_file_that_is_no_file_of_git_is_a_conflict(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with opened(str(tmp_path), ".sm-merge-x") as directory:
        found = directory.look("a")
    assert isinstance(found, TreeEntry)
    assert not found.is_file


# With files


class Copied:
    """A directory `texts`, and a copy of it."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self.source = directory / "texts"
        self.source.mkdir()
        for name, text in files.items():
            write(self.source / name, text)
        self.plan: PlannedTree = plan_copy(
            str(self.source), "login", TreeWish(copy=True), PLACE, "sm/{name}", lambda *_: None
        )
        self.path = Path(self.plan.path)
        self.claim = Claim(str(directory / "claim"))

    def make(self) -> MadeTree:
        return make_copy(self.plan, 1 << 30, self.claim, 60, lambda *_: None, threading.Event())

    def merger(self) -> CopyMerger:
        return CopyMerger(str(self.path), str(self.source), None)

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.source)): path.read_text()
            for path in self.source.rglob("*")
            if path.is_file() and not path.is_relative_to(self.source / ".sm")
        }


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


LINES = "1\n2\n3\n4\n5\n6\n7\n8\n"


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    made = Copied(tmp_path, {"a": LINES, "b": "b\n", "c/d": "d\n", "e": "e\n", "g": "a\nb\nb\na\nb\n"})
    made.make()
    return made


class KilledError(BaseException):
    """The end of the process at some moment."""


@pytest.mark.processes
@pytest.mark.parametrize("at", range(7))
def test_killed_merge_is_finished_by_the_next_one(
    copied: Copied, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(copied.path / "a", LINES.replace("1", "one"))
    write(copied.source / "a", LINES.replace("2\n", "2\ntwo\n").replace("8", "eight"))
    write(copied.path / "b", "of the agent\n")
    # What they become together conflicts with the copy, so a second merge must not merge it again.
    write(copied.path / "g", "a\nb\na\nb\n")
    write(copied.source / "g", "b\nb\na\nb\n")
    write(copied.path / "new/f", "f\n")
    (copied.path / "c/d").unlink()
    calls = 0

    def killed(original: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object, **options: object) -> None:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise KilledError
            original(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("write", "delete"):
            patch.setattr(PlainDirectory, name, killed(getattr(PlainDirectory, name)))
        patch.setattr("sm.capabilities.worktrees.copies.merging.end", killed(lambda _: None))
        try:
            copied.merger().merge()
        except KilledError:
            assert calls == at + 1
    write(copied.path / "e", "after the kill\n")
    copied.merger().try_merge()
    copied.merger().merge()
    assert copied.files() == {
        "a": "one\n2\ntwo\n3\n4\n5\n6\n7\neight\n",
        "b": "of the agent\n",
        "e": "after the kill\n",
        "g": "b\na\nb\n",
        "new/f": "f\n",
    }
    assert copied.merger().merge() is None
    assert not [*copied.source.rglob(".sm-merge-*")]


@pytest.mark.processes
def test_begun_merge_whose_contents_are_gone_begins_anew(copied: Copied) -> None:
    write(copied.path / "b", "of the agent\n")
    begin(
        str(copied.path),
        BegunMerge("1" * 40, ".sm-merge-x", [MergeStep("b", None, TreeEntry("100644", "2" * 40))]),
    )
    copied.merger().merge()
    assert copied.files()["b"] == "of the agent\n"


@pytest.mark.processes
def test_names_that_are_not_utf8_are_merged(copied: Copied) -> None:
    for name in (b"\xff new", b" begins with a blank"):
        with open(os.fsencode(copied.path) + b"/" + name, "wb") as file:
            file.write(b"x")
    copied.merger().merge()
    assert {b"\xff new", b" begins with a blank"} <= set(os.listdir(os.fsencode(copied.source)))


@pytest.mark.processes
def test_killed_write_leaves_no_file_behind(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copied.path / "b", "of the agent\n")

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(PlainDirectory, "_place", killed)
        with pytest.raises(KilledError):
            copied.merger().merge()
    assert [path.name for path in copied.source.glob(".sm-merge-*")]
    copied.merger().merge()
    assert copied.files()["b"] == "of the agent\n"
    assert not [*copied.source.glob(".sm-merge-*")]


@pytest.mark.processes
def test_file_that_changes_during_the_merge_is_left_as_it_is(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(copied.path / "a", LINES.replace("1", "one"))
    write(copied.path / "b", "of the agent\n")
    original = PlainDirectory.write

    def meanwhile(self: PlainDirectory, path: str, *arguments: object) -> None:
        if path == "b":
            write(copied.source / "b", "of a person\n")
        original(self, path, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(PlainDirectory, "write", meanwhile)
        with pytest.raises(IllegalState, match="changed while the merge went on, and was left as it is"):
            copied.merger().merge()
    assert copied.files()["b"] == "of a person\n"
    with pytest.raises(CopyConflict, match="conflicts in b"):
        copied.merger().merge()
    write(copied.path / "b", "of a person\n")
    copied.merger().merge()
    assert copied.files()["a"] == LINES.replace("1", "one")


@pytest.mark.processes
def test_only_one_merge_goes_on_in_a_directory(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copied.path / "b", "of the agent\n")
    refusals = list[str]()
    original = PlainDirectory.write

    def other(*arguments: object) -> None:
        with pytest.raises(IllegalState) as refused:
            copied.merger().try_merge()
        refusals.append(refused.value.message)
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PlainDirectory, "write", other)
    copied.merger().merge()
    assert refusals == [f"another merge goes on in {copied.source}"]


@pytest.mark.processes
def test_binary_files_that_both_have_changed_are_a_conflict(tmp_path: Path) -> None:
    copied = Copied(tmp_path, {"a": "\0 1\n2\n3\n4\n"})
    copied.make()
    write(copied.path / "a", "\0 one\n2\n3\n4\n")
    write(copied.source / "a", "\0 1\n2\n3\nfour\n")
    with pytest.raises(CopyConflict):
        copied.merger().merge()


def conflict(ours: str, base: str, theirs: str) -> list[bytes]:
    """A conflict between two lines, as git writes it. Each letter is a line."""
    lines, size = ["f"], 60
    for marker, side in (("<", ours), ("|", base), ("=", theirs)):
        lines += [f"{marker * size} name", *side]
    return [f"{line}\n".encode() for line in (*lines, ">" * size, "l")]


@pytest.mark.parametrize(
    ("ours", "base", "theirs", "is_resolved"),
    [
        ("x", "", "xy", True),
        ("x", "", "yx", True),
        ("x", "o", "xy", True),
        ("xz", "o", "xyz", True),
        ("xx", "", "x", False),
        ("x", "o", "y", False),
        ("x", "o", "xo", False),
        ("zx", "", "xyz", False),
        ("", "o", "y", False),
    ],
)
def test_copy_resolves_a_conflict_when_it_has_the_changes_of_the_directory(
    ours: str, base: str, theirs: str, is_resolved: bool
) -> None:
    expected = "".join(f"{line}\n" for line in f"f{theirs}l").encode() if is_resolved else None
    assert resolved(conflict(ours, base, theirs)) == expected


@pytest.mark.processes
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_conflict_ends_when_the_copy_has_the_changes_of_both(tmp_path: Path, eol: str) -> None:
    copied = Copied(tmp_path, {"a": f"1{eol}2{eol}"})
    copied.make()
    for name, at_first, both in (("a", "1 2 {}", "1 2 ours theirs"), ("new", "{}", "theirs ours")):
        for directory, side in ((copied.source, "ours"), (copied.path, "theirs")):
            write(directory / name, at_first.format(side).replace(" ", eol) + eol)
        with pytest.raises(CopyConflict):
            copied.merger().merge()
        write(copied.path / name, both.replace(" ", eol) + eol)
        copied.merger().merge()
        assert (copied.source / name).read_bytes() == (both.replace(" ", eol) + eol).encode()


@pytest.mark.processes
@pytest.mark.parametrize("text", ["ours\ntheirs", "ours\n" + "<" * 60 + "\n"])
def test_text_that_looks_like_a_conflict_or_has_no_end_resolves_none(tmp_path: Path, text: str) -> None:
    copied = Copied(tmp_path, {"a": ""})
    copied.make()
    write(copied.source / "a", "ours\n")
    write(copied.path / "a", text)
    with pytest.raises(CopyConflict):
        copied.merger().merge()


@pytest.mark.processes
@pytest.mark.parametrize("killed_at", ["-p ours", "--diff3"])
def test_git_that_is_killed_while_it_merges_a_file_empties_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    copied = Copied(tmp_path, {"a": "1\n"})
    copied.make()
    write(copied.source / "a", "ours\n")
    write(copied.path / "a", "ours\ntheirs\n")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in merge-file*"{killed_at}"*) kill -9 $$;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(ExternalError, match="git merge-file was killed"):
        copied.merger().merge()
    assert (copied.source / "a").read_text() == "ours\n"
    monkeypatch.undo()
    copied.merger().merge()
    assert (copied.source / "a").read_text() == "ours\ntheirs\n"


@pytest.mark.processes
def test_file_that_both_have_added_with_other_modes_is_a_conflict(tmp_path: Path) -> None:
    copied = Copied(tmp_path, {"a": "1\n"})
    copied.make()
    for directory in (copied.source, copied.path):
        write(directory / "run", "1\n")
    (copied.source / "run").chmod(0o755)
    with pytest.raises(CopyConflict):
        copied.merger().merge()
    assert (copied.source / "run").stat().st_mode & 0o100


@pytest.mark.processes
def test_attributes_of_the_directory_change_no_bytes(tmp_path: Path) -> None:
    copied = Copied(tmp_path, {".gitattributes": "* text eol=crlf filter=x ident\n", "a": "1\r\n2\r\n$Id$\n"})
    copied.make()
    assert git(copied.path, "status", "--porcelain") == ""
    write(copied.path / "b", "1\r\n$Id$\n")
    copied.merger().merge()
    assert (copied.source / "b").read_bytes() == b"1\r\n$Id$\n"


@pytest.mark.processes
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees, trees, trees)
def test_files_after_a_merge_are_those_of_the_plan(
    tmp_path_factory: pytest.TempPathFactory, base: Tree, ours: Tree, theirs: Tree
) -> None:
    base, ours, theirs = ({n: t.replace("->", "") for n, t in tree.items()} for tree in (base, ours, theirs))
    copied = Copied(tmp_path_factory.mktemp("merge"), base)
    copied.make()
    for top, tree in ((copied.source, ours), (copied.path, theirs)):
        replace_files(top, base, tree)
    plan, refused = planned(base, ours, theirs), list[str]()
    try:
        copied.merger().merge()
    except CopyConflict as conflict:
        refused += conflict.files
    assert refused == [conflict.path for conflict in plan.conflicts]
    assert copied.files() == (ours if refused else carried_out(ours, plan))


def replace_files(top: Path, before: Tree, after: Tree) -> None:
    for name in before:
        (top / name).unlink()
    directories = {parent for name in before for parent in Path(name).parents} - {Path()}
    for directory in sorted(directories, reverse=True):
        (top / directory).rmdir()
    for name, text in after.items():
        write(top / name, text)


# Making


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["killed", "cancelled", "unreadable", "full"])
def test_unfinished_copy_leaves_nothing(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, cancelled = Copied(tmp_path, {"a": "a\n", "b/c": "c\n"}), threading.Event()
    original = FileCopies._copy

    def fail(self: FileCopies, source: str, target: str) -> None:
        original(self, source, target)
        match kind:
            case "killed":
                raise KilledError
            case "cancelled":
                cancelled.set()
            case "unreadable":
                raise PermissionError(13, "Permission denied", source)
            case _:
                raise OSError(28, "No space left on device", source)

    monkeypatch.setattr(FileCopies, "_copy", fail)
    error = {"killed": KilledError, "cancelled": Cancelled}.get(kind, ExternalError)
    with pytest.raises(error):
        make_copy(copied.plan, 1 << 30, copied.claim, 60, lambda *_: None, cancelled)
    if kind == "killed":
        assert [*(copied.source / PLACE).iterdir()]
        remove_copy_remains(copied.plan, copied.claim)
    assert not (copied.source / ".sm").exists()
    assert copied.files() == {"a": "a\n", "b/c": "c\n"}


@pytest.mark.processes
def test_copy_with_work_is_no_remainder(copied: Copied) -> None:
    write(copied.path / "b", "of a person\n")
    with pytest.raises(ExternalError, match=r"kept the copy .*: it has 1 change that .* does not have \(b\)"):
        remove_copy_remains(copied.plan, copied.claim)
    write(copied.path / "b", "b\n")
    remove_copy_remains(copied.plan, copied.claim)
    assert not copied.path.exists()


def test_content_has_the_name_that_git_gives() -> None:
    assert blob_name(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_steps_delete_before_they_write() -> None:
    plan = planned({"a": "1"}, {"a": "1"}, {"a/b": "2"})
    assert plan.steps == [MergeStep("a", entry("1"), None), MergeStep("a/b", None, entry("2"))]


@pytest.mark.processes
def test_merge_that_cannot_write_is_finished_by_the_next_one(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(copied.path / "a", LINES.replace("1", "one"))
    write(copied.path / "b", "of the agent\n")
    original = PlainDirectory.write

    def full(self: PlainDirectory, path: str, *arguments: object) -> None:
        if path == "b":
            raise OSError(28, "No space left on device", path)
        original(self, path, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(PlainDirectory, "write", full)
        with pytest.raises(ExternalError, match="b: No space left on device") as failed:
            copied.merger().merge()
        assert failed.value.hint == "what was merged stays; the next sm merge finishes the rest"
    assert copied.files()["a"] == LINES.replace("1", "one")
    done = copied.merger().merge()
    assert done is not None
    assert (done.files, copied.files()["b"]) == (["b"], "of the agent\n")
