"""The files of a new worktree, and the settings of git that come along."""

import threading
from pathlib import Path

import pytest

from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.filling import make_tree
from sm.capabilities.worktrees.making.planning import plan_tree
from sm.capabilities.worktrees.model import TreeFiles, TreeWish
from sm.capabilities.worktrees.rules import PLACE
from tests.git_repositories import git, make_app

pytestmark = pytest.mark.processes  # git


def test_tree_of_a_sparse_submodule_is_sparse_and_has_its_own_directory(tmp_path: Path) -> None:
    """git moves `core.worktree` of a submodule to the file with the settings of a sparse checkout."""
    app, outer = make_app(tmp_path), tmp_path / "outer"
    (app / "web").mkdir()
    (app / "web" / "w.txt").touch()
    git(app, "add", ".")
    git(app, "commit", "-q", "-m", "web")
    git(tmp_path, "init", "-q", str(outer))
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(app), "sub")
    sub = outer / "sub"
    git(sub, "sparse-checkout", "set", "--cone", "web")
    assert git(sub, "config", "--worktree", "core.worktree") == "../../../sub"
    plan = plan_tree(str(sub), "login", TreeWish(), PLACE, "sm/{name}", lambda *_: None)
    claim = Claim(str(tmp_path / "claim"))
    make_tree(plan, TreeFiles(), claim, 60, lambda *_: None, threading.Event())
    tree = Path(plan.path)
    assert sorted(path.name for path in tree.iterdir()) == [".git", "web"]
    assert git(tree, "rev-parse", "--show-toplevel") == plan.path
    assert git(tree, "clean", "-ndx") == git(tree, "status", "--porcelain") == ""
