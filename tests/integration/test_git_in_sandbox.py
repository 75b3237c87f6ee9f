"""A sandboxed agent plants programs for git, in a real container: no command of `sm` runs them on this machine."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.git_repositories import git
from tests.instance import Instance
from tests.integration.test_sandbox import CONFIG, OWNER, read_later

_ATTACK = """
cp -r .git /tmp/evil 2>/dev/null || cp -r {common} /tmp/evil
for directory in {common} /tmp/evil; do
    git config --file $directory/config filter.evil.clean "touch {marker}; cat"
    git config --file $directory/config core.fsmonitor "touch {marker}"
    echo '* filter=evil' > $directory/info/attributes
    printf '#!/bin/sh\\ntouch {marker}\\n' > $directory/hooks/post-checkout
done
rm -rf {common}/evil; cp -r /tmp/evil {common}/evil
for worktree in {common}/worktrees/*; do
    echo {common}/evil > $worktree/commondir
done
echo '* filter=evil' > .gitattributes
echo done > {done}
sleep 1000
"""


def repository(instance: Instance, name: str) -> Path:
    path = instance.work / name
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    (path / "a.txt").write_text("a\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def give(path: Path) -> None:
    subprocess.run(["chown", "-R", f"{OWNER}:{OWNER}", str(path)], check=True)


def refuse_all(instance: Instance, direct: str, cwd: Path) -> None:
    why = "a sandboxed session may have changed the programs that git runs"
    for command in ("diff", "merge"):
        assert why in instance.refused(command, direct, exit_code=5, cwd=cwd)
    digest = instance.json("digest")
    assert [(f["session_id"], f["reason"]) for f in digest["not_compared"]] == [(direct, f"{why} there")]
    assert why in instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--trust", "direct", exit_code=5, cwd=cwd
    )


@pytest.mark.parametrize("place", ["linked worktree", "writable mount"])
@pytest.mark.skipif(os.geteuid() != 0, reason="the test gives directories away, which needs root")
def test_git_does_not_run_where_an_agent_of_a_container_could_write(
    engine: str, sandbox_image: str, place: str
) -> None:
    instance = Instance(config=CONFIG.format(engine=engine, image=sandbox_image, more=""))
    try:
        os.chown(instance.work, OWNER, OWNER)
        instance.home.chmod(0o755)
        app, workspace = repository(instance, "app"), instance.work / "tree"
        if place == "linked worktree":
            git(app, "worktree", "add", "-q", str(workspace))
        else:
            workspace.mkdir()
            more = f', mounts: ["{app}:rw"]'
            instance.config.write_text(CONFIG.format(engine=engine, image=sandbox_image, more=more))
        direct = instance.spawn("Sleeper", "x", "--worktree", "--trust", "direct", cwd=app)
        direct_id, direct_tree = direct["session_id"], Path(direct["worktree"]["path"])
        (direct_tree / "a.txt").write_text("b\n")
        # Before any container could write there, git runs.
        assert instance.json("diff", direct_id, cwd=app)["files"] == [
            {"path": "a.txt", "added": 1, "deleted": 1}
        ]
        for path in (app, workspace):
            give(path)
        marker, done = workspace / "ran", workspace / "done"
        instance.sm("workspace", "create", "tree", "--working-dir", str(workspace))
        script = _ATTACK.format(common=f"{app}/.git", marker=marker, done=done)
        agent = instance.spawn("Sh", f"cd {workspace}; {script}", "--workspace", "tree")["session_id"]
        read_later(done)
        # The repository that the direct agent uses is as it was.
        assert "evil" not in (app / ".git/config").read_text()
        assert not (app / ".git/info/attributes").exists()
        if place == "linked worktree":
            assert (app / f".git/worktrees/{direct_tree.name}/commondir").read_text() == "../..\n"
        refuse_all(instance, direct_id, app)
        # The session is removed, and nothing of today names the directory.
        instance.sm("kill", agent)
        instance.sm("rm", agent)
        instance.sm("workspace", "delete", "tree")
        instance.sm("sandbox", "rm", "tree", "--force")  # what the agent started may still end
        instance.config.write_text(CONFIG.format(engine=engine, image=sandbox_image, more=""))
        instance.sm("daemon", "restart")
        refuse_all(instance, direct_id, app)
        instance.sm("kill", direct_id)
        ended = instance.run("rm", direct_id, "--discard", cwd=app)
        assert f"kept the worktree {direct_tree}: a sandboxed session" in ended.stderr
        assert direct_tree.exists()
        assert not marker.exists()
    finally:
        instance.end()
