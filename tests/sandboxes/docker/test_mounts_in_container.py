"""Mounts and options of a container that a real engine runs, seen from inside."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from sm.config import SandboxSection
from sm.core.models import Workspace
from sm.errors import SandboxUnavailable
from sm.paths import InstancePaths
from sm.sandboxes.docker.maker import ContainerMaker
from sm.sandboxes.docker.mounts import changed, make_directories, present
from sm.sandboxes.docker.spec import ContainerSpec, build_spec
from sm.sandboxes.path_map import Mount
from tests.sandboxes.docker.conftest import Sandboxes
from tests.waits import NEVER_S

pytestmark = [
    pytest.mark.processes,  # commands in containers
    pytest.mark.skipif(os.geteuid() != 0, reason="the test gives directories away, which needs root"),
]
USER = 1234


class Inside:
    """A running container."""

    def __init__(self, engine: str, spec: ContainerSpec, pid: int) -> None:
        self._engine = engine
        self._spec = spec
        self.pid = pid

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "-H", self._engine, "exec", self._spec.name, "sh", "-c", command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def succeeds(self, command: str) -> bool:
        return self.run(command).returncode == 0

    def output(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


class Containers:
    def __init__(self, engine: str, image: str, paths: InstancePaths) -> None:
        self._engine = engine
        self._image = image
        self._paths = paths
        self.instance = uuid.uuid4().hex

    def spec(self, workspace: Workspace | None, **settings: Any) -> ContainerSpec:
        section = SandboxSection(image=self._image, network="none", **settings)
        os.makedirs(self._paths.client, exist_ok=True)
        spec = build_spec(workspace, section, self._paths, self.instance, nofile_max=None)
        make_directories(workspace, self._paths, spec.user)
        os.chown(self._paths.sandbox(workspace.slug if workspace else None).socket_dir, *spec.user)
        return spec

    @contextmanager
    def started(self, spec: ContainerSpec) -> Iterator[Inside]:
        api = docker.APIClient(base_url=self._engine, timeout=int(NEVER_S))
        try:
            host_config = api.create_host_config(**spec.host_config)
            made = api.create_container(
                name=spec.name, labels=dict(spec.labels), host_config=host_config, **spec.options
            )
            try:
                api.start(made["Id"])
                yield Inside(self._engine, spec, api.inspect_container(made["Id"])["State"]["Pid"])
            finally:
                api.remove_container(made["Id"], force=True)
        finally:
            api.close()


@pytest.fixture
def containers(engine: str, sandbox_image: str, tmp_path: Path) -> Containers:
    return Containers(
        engine, sandbox_image, InstancePaths(f"{tmp_path}/sm/config.yaml", f"{tmp_path}/sm/state")
    )


def given(directory: Path) -> Workspace:
    """A workspace at the directory, which belongs to another user than root."""
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(directory)], check=True)
    return Workspace("shop", str(directory), "2026-01-01T00:00:00Z")


def git(*arguments: object, where: Path) -> None:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "safe.directory=*")
    subprocess.run(["git", *identity, *map(str, arguments)], cwd=where, check=True, capture_output=True)


def repository(path: Path) -> Path:
    path.mkdir()
    git("init", "-q", where=path)
    git("commit", "-q", "--allow-empty", "-m", "first", where=path)
    return path


COMMIT = "git -c user.name=Bob -c user.email=bob@example.org commit -q --allow-empty -m second"


def test_agent_can_neither_change_protected_files_nor_replace_their_directories(
    containers: Containers, tmp_path: Path
) -> None:
    shop = repository(tmp_path / "shop")
    (shop / ".claude").mkdir()
    (shop / ".claude/settings.json").write_text("{}")
    (shop / ".envrc").touch()
    configuration = (shop / ".git/config").read_bytes()
    with containers.started(containers.spec(given(shop))) as inside:
        for command in (
            "touch .git/hooks/pre-commit",
            "rm .git/hooks/pre-commit.sample",
            "mv .git/hooks .git/other",
            "mv .git other",
            "git config core.pager sh",
            "echo x >> .git/config",
            "rm -f .git/config",
            "echo x > .claude/settings.json",
            "mv .claude other",
            "rm .envrc",
            "ln -sf /etc/passwd .envrc",
        ):
            assert not inside.succeeds(f"cd {shop} && {command}"), command
        assert inside.succeeds(f"cd {shop} && touch file .claude/other .git/other && {COMMIT}")
    assert sorted(path.name for path in shop.iterdir()) == [".claude", ".envrc", ".git", "file"]
    assert (shop / "file").stat().st_uid == USER
    assert (shop / ".git/config").read_bytes() == configuration


def test_git_works_in_a_linked_worktree(containers: Containers, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", tree, where=main)
    git("worktree", "add", "-q", tmp_path / "direct", where=main)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(main)], check=True)
    with containers.started(containers.spec(given(tree))) as inside:
        assert inside.output(f"cd {tree} && {COMMIT} && git log --format=%s") == "second\nfirst"
        for command in (
            "git stash list",
            "git checkout -q -b other",
            "git rebase -q HEAD~1",
            "git pack-refs --all",
        ):
            assert inside.succeeds(f"cd {tree} && {command}"), command
        assert inside.output(f"ls -A {main}") == ".git"
        for command in (
            f"echo gitdir: /tmp > {tree}/.git",
            f"echo /tmp > {main}/.git/worktrees/tree/commondir",
            f"mv {main}/.git/worktrees {main}/.git/other",
            f"touch {main}/.git/hooks/pre-commit",
            f"echo '* filter=x' > {main}/.git/info/attributes",
            f"echo /tmp > {main}/.git/worktrees/direct/commondir",
            f"rm {main}/.git/worktrees/direct/HEAD",
            f"mv {main}/.git/worktrees/direct {main}/.git/worktrees/other",
            f"mv {main}/.git/worktrees/tree {main}/.git/worktrees/other",
            f"cd {tree} && git worktree add -q /tmp/other",
            f"cd {tree} && git config core.pager sh",
        ):
            assert not inside.succeeds(command), command


def test_repository_of_a_writable_mount_keeps_its_configuration(
    containers: Containers, tmp_path: Path
) -> None:
    shop, library = tmp_path / "shop", repository(tmp_path / "library")
    shop.mkdir()
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(library)], check=True)
    with containers.started(containers.spec(given(shop), mounts=(f"{library}:rw",))) as inside:
        assert inside.succeeds(f"cd {library} && touch file && {COMMIT}")
        for command in (
            "git config filter.x.clean sh",
            "touch .git/hooks/pre-commit",
            "touch .git/info/attributes",
            "mv .git other",
        ):
            assert not inside.succeeds(f"cd {library} && {command}"), command


def test_protection_of_a_file_that_the_host_replaces_is_known_to_be_gone(
    containers: Containers, tmp_path: Path
) -> None:
    """The kernel removes the mount at the file's old name, so the container can write the new file."""
    shop = repository(tmp_path / "a shop")
    spec = containers.spec(given(shop))
    config = f"{shop}/.git/config"
    with containers.started(spec) as inside:
        before = present(spec.mounts, inside.pid)
        assert config in {mount.target for mount in before}
        git("config", "remote.origin.url", "/elsewhere", where=shop)
        assert set(before) - set(present(spec.mounts, inside.pid)) == {Mount(config, config)}


def test_agent_can_replace_neither_its_socket_nor_its_client(containers: Containers, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    spec = containers.spec(given(tmp_path / "shop"))
    with containers.started(spec) as inside:
        for directory in ("/run/sm/socket", "/run/sm/launch", "/opt/sm"):
            assert not inside.succeeds(f"touch {directory}/x")
            assert not inside.succeeds(f"mv {directory} /tmp/x")
        assert not inside.succeeds("mv /run/sm /run/other")
        assert not inside.succeeds("touch /run/sm/x")
        assert inside.succeeds("touch /run/x")


def test_temporary_directories_belong_to_the_user_and_run_programs(
    containers: Containers, tmp_path: Path
) -> None:
    (tmp_path / "shop").mkdir()
    with containers.started(containers.spec(given(tmp_path / "shop"), scratch="1m")) as inside:
        assert inside.output("stat -c '%a %u:%g' /scratch") == f"700 {USER}:{USER}"
        assert inside.output("stat -c %u:%g /run") == f"{USER}:{USER}"
        assert inside.output("stat -c %a /tmp") == "1777"
        for directory in ("/tmp", "/scratch", "/home/sandbox"):
            assert inside.succeeds(f"cp /bin/true {directory}/x && {directory}/x"), directory
        assert not inside.succeeds("cp /bin/true /run/x && /run/x")
        mounts = [line.split() for line in inside.output("cat /proc/mounts").splitlines()]
        options = {mount[1]: mount[3].split(",") for mount in mounts}
        for directory in ("/tmp", "/run", "/run/sm", "/scratch"):
            assert {"nosuid", "nodev"} <= set(options[directory])
        assert "No space left" in inside.run("head -c 2m /dev/zero > /scratch/y").stderr
        assert inside.succeeds("touch /tmp/y")


def test_default_container_reads_the_vault_as_a_user_without_files(
    containers: Containers, tmp_path: Path
) -> None:
    vault = tmp_path / "docs"
    vault.mkdir()
    (vault / "a").write_text("text")
    with containers.started(containers.spec(None, vault=str(vault))) as inside:
        assert inside.output("id -u; id -g") == "60999\n60999"
        assert inside.output(f"cat /vault/a {vault}/a") == "texttext"
        for directory in ("/vault", str(vault)):
            assert not inside.succeeds(f"touch {directory}/x")
        assert inside.succeeds("touch /home/sandbox/x /scratch/x")


@pytest.mark.parametrize("back", [False, True], ids=["link stays", "link is undone"])
def test_link_made_between_check_and_mount_is_found(
    containers: Containers, tmp_path: Path, back: bool
) -> None:
    shop, secret = tmp_path / "shop", tmp_path / "secret"
    shop.mkdir()
    secret.mkdir()
    (secret / "key").touch()
    spec = containers.spec(given(shop))
    with containers.started(spec) as inside:
        assert changed(spec.mounts, inside.pid) == ()
    shop.rename(tmp_path / "kept")
    shop.symlink_to(secret)
    with containers.started(spec) as inside:
        assert inside.succeeds(f"test -e {shop}/key")  # the engine followed the link
        if back:
            shop.unlink()
            (tmp_path / "kept").rename(shop)
        assert changed(spec.mounts, inside.pid) == (str(shop),)


async def test_link_made_before_a_container_starts_again_is_found(sandboxes: Sandboxes) -> None:
    """The engine resolves the sources of the mounts at each start."""
    shop = sandboxes.workspace()
    secret = sandboxes.root / "secret"
    secret.mkdir()
    made = await sandboxes.containers.ensure(shop)
    settings = sandboxes.settings_of(shop)
    spec = build_spec(shop, settings, sandboxes.paths, sandboxes.instance, nofile_max=None)
    sandboxes.docker("stop", "--time=0", made.id)
    directory = Path(shop.directory)
    directory.rename(directory.with_name("kept"))
    directory.symlink_to(secret)
    maker = ContainerMaker(sandboxes.engine, sandboxes.paths, sandboxes.instance)
    with pytest.raises(SandboxUnavailable, match=f"{directory} was replaced"):
        await maker.bring_up(shop, spec, anew=False)
    assert await sandboxes.all_in(sandboxes.containers) == []


async def test_adopted_container_is_checked_before_an_agent_starts_in_it(sandboxes: Sandboxes) -> None:
    """Nobody checked the mounts of a container whose daemon was killed while it was started."""
    shop = sandboxes.workspace()
    secret = sandboxes.root / "secret"
    secret.mkdir()
    made = await sandboxes.containers.ensure(shop)
    sandboxes.docker("stop", "--time=0", made.id)
    directory = Path(shop.directory)
    directory.rename(directory.with_name("kept"))
    directory.symlink_to(secret)
    sandboxes.docker("start", made.id)
    directory.unlink()
    directory.with_name("kept").rename(directory)
    later = sandboxes.open()
    try:
        await later.adopt()
        found = await later.ensure(shop)
        assert found.id != made.id
        assert changed(found.mounts, found.init.pid) == ()
    finally:
        await later.close()
