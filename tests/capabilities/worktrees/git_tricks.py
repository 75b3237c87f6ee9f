"""Ways to make git run a program, each planted in a repository by somebody who may write all of its files."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

TRICKS: dict[str, Callable[["Arena"], None]] = {}
SETTINGS: list[str] = []
"""The tricks that only name a program, each by keys of its own: one arena can have all of them."""

_PROGRAM = """#!/bin/sh
echo "{trick}: $0 $*" >> {marker}
case "$*" in *cat*|"") exec cat;; esac
exit 0
"""


def git(directory: Path, *arguments: str) -> str:
    """Run git by hand, without the programs of the arena."""
    done = subprocess.run(
        ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(directory), *arguments],
        env={
            "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "x@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.strip()


class Arena:
    """A repository with the worktree of a session, in which a commit, a change and a new file wait for `sm`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / "app"
        self.tree = self.repo / ".sm/worktrees/x"
        self.common = self.repo / ".git"
        self.own = self.common / "worktrees/x"
        self.marker = root / "ran"
        self.program = root / "evil"
        """The program of the trick that is planted: it appends the name of the trick to `marker`."""
        self.bin = root / "bin"
        self.home = root / "home"
        self.environment: dict[str, str] = {}
        self.cwd = self.repo
        self.working_dir: Path | None = None
        for directory in (self.repo, self.bin, self.home):
            directory.mkdir()
        (self.home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@localhost\n")
        git(self.repo, "init", "-q", "-b", "main")
        self.config("user.name", "x")
        self.config("user.email", "x@localhost")
        (self.repo / "a.txt").write_text("a\n")
        (self.repo / "b.txt").write_text("b\n")
        git(self.repo, "add", ".")
        git(self.repo, "commit", "-q", "-m", "first")
        git(self.repo, "worktree", "add", "-q", "-b", "sm/x", str(self.tree))
        (self.common / "info/exclude").write_text("/.sm/worktrees/\n")
        self.commit("a.txt", "changed\n")

    def plant(self, trick: str) -> None:
        self.program = self.root / f"evil-{trick}"
        self.program.write_text(_PROGRAM.format(trick=trick, marker=self.marker))
        self.program.chmod(0o755)
        TRICKS[trick](self)

    def ran(self) -> list[str]:
        """The marks of the programs that ran."""
        return self.marker.read_text().splitlines() if self.marker.exists() else []

    def commit(self, name: str, text: str, where: Path | None = None) -> None:
        where = where or self.tree
        (where / name).write_text(text)
        git(where, "add", name)
        git(where, "commit", "-q", "-m", name)

    def config(self, key: str, value: str, file: Path | None = None) -> None:
        git(self.root, "config", "--file", str(file or self.common / "config"), "--add", key, value)

    def filter(self, name: str = "evil", file: Path | None = None, **more: str) -> None:
        commands = more or {"clean": f"{self.program} cat", "smudge": f"{self.program} cat"}
        for key, value in commands.items():
            self.config(f"filter.{name}.{key}", value, file)

    def attributes(self, text: str = "* filter=evil\n") -> None:
        for where in (self.repo, self.tree):
            (where / ".gitattributes").write_text(text)

    def copied(self) -> Path:
        """A copy of the git directory elsewhere, with a filter for every file."""
        copy = self.root / "copied"
        shutil.copytree(self.common, copy, symlinks=True)
        self.filter(file=copy / "config")
        self.config("core.fsmonitor", str(self.program), copy / "config")
        (copy / "info/attributes").write_text("* filter=evil\n")
        return copy

    def nested(self, path: Path) -> None:
        """A repository with a commit and all kinds of programs, as an unpacked archive leaves it."""
        path.mkdir(parents=True)
        git(path, "init", "-q")
        self.commit("f", "f\n", path)
        for key in ("core.fsmonitor", "diff.external", "core.sshCommand"):
            self.config(key, str(self.program), path / ".git/config")
        self.filter(file=path / ".git/config")
        (path / ".gitattributes").write_text("* filter=evil\n")
        (path / "f").write_text("changed\n")

    def finish(self) -> None:
        """Leave a changed and a new file, and make every index look stale, so that git reads all files anew."""
        restored: dict[str, str | None] = {}
        if self.tree.is_dir():
            restored = {str(self.tree / "b.txt"): "b\n", str(self.tree / "new.txt"): None}
            (self.tree / "b.txt").write_text("changed\n")
            (self.tree / "new.txt").write_text("new\n")
            for path in (*self.tree.glob("*.txt"), *self.repo.glob("*.txt")):
                os.utime(path, (1, 1))
        self.marker.unlink(missing_ok=True)  # of git while the trick was planted
        tree = {"path": str(self.tree), "branch": "sm/x"} if self.working_dir is None else None
        session = {"working_dir": str(self.working_dir or self.tree), "worktree": tree}
        (self.root / "session.json").write_text(
            json.dumps(
                {
                    "session": session,
                    "environment": self.environment,
                    "cwd": str(self.cwd),
                    "repository": str(self.repo),
                    "restored": restored,
                }
            )
        )


def trick(function: Callable[[Arena], None]) -> Callable[[Arena], None]:
    TRICKS[function.__name__.removeprefix("_")] = function
    return function


def _setting(
    name: str, *keys: str, value: str = "{program}", prepare: Callable[[Arena], None] | None = None
) -> None:
    """A trick that is one or more settings with the program as their value."""

    def plant(arena: Arena) -> None:
        if prepare is not None:
            prepare(arena)
        for key in keys:
            arena.config(key, value.format(program=arena.program))

    TRICKS[name] = plant
    if prepare is None and "{program}" in value:
        SETTINGS.append(name)


# ------------------------------------------------------------------------------------------------------------- filters


@trick
def filter_clean(arena: Arena) -> None:
    arena.filter(clean=f"{arena.program} cat")
    arena.attributes()


@trick
def filter_smudge(arena: Arena) -> None:
    for where in (arena.repo, arena.tree):
        arena.commit(".gitattributes", "* filter=evil\n", where)
    arena.filter(smudge=f"{arena.program} cat")


@trick
def filter_process(arena: Arena) -> None:
    arena.filter(process=str(arena.program))
    arena.attributes()


@trick
def filter_required(arena: Arena) -> None:
    arena.filter(clean=str(arena.program), smudge=str(arena.program), required="true")
    arena.attributes()


@trick
def filter_by_info_attributes(arena: Arena) -> None:
    arena.filter()
    (arena.common / "info/attributes").write_text("* filter=evil\n")


@trick
def filter_by_a_macro(arena: Arena) -> None:
    arena.filter()
    arena.attributes("[attr]text filter=evil\n*.txt text\n")


@trick
def filter_by_core_attributes_file(arena: Arena) -> None:
    arena.filter()
    file = arena.root / "attributes"
    file.write_text("* filter=evil\n")
    arena.config("core.attributesFile", str(file))


@trick
def filter_named_lfs(arena: Arena) -> None:
    arena.filter("lfs", clean=f"{arena.program} cat", process=f"{arena.program}")
    arena.attributes("* filter=lfs\n")


@trick
def filter_with_a_newline_in_its_name(arena: Arena) -> None:
    with (arena.common / "config").open("a") as file:
        file.write(f'[filter "e\\vil"]\n\tclean = \\\n{arena.program} cat ; x\n')
    arena.attributes("* filter=evil\n")


# ------------------------------------------------------------------------------------------- other files of settings


@trick
def include_path(arena: Arena) -> None:
    arena.filter(file=arena.root / "more")
    arena.config("include.path", str(arena.root / "more"))
    arena.attributes()


@trick
def include_relative_path(arena: Arena) -> None:
    arena.filter(file=arena.common / "more")
    arena.config("include.path", "more")
    arena.attributes()


@trick
def include_if_gitdir(arena: Arena) -> None:
    arena.filter(file=arena.root / "more")
    arena.config("includeIf.gitdir:/**.path", str(arena.root / "more"))
    arena.attributes()


@trick
def include_if_on_branch(arena: Arena) -> None:
    arena.filter(file=arena.root / "more")
    arena.config("includeIf.onbranch:**.path", str(arena.root / "more"))
    arena.attributes()


@trick
def include_if_hasconfig(arena: Arena) -> None:
    arena.filter(file=arena.root / "more")
    arena.config("remote.x.url", "https://localhost/x")
    arena.config("includeIf.hasconfig:remote.*.url:https://**.path", str(arena.root / "more"))
    arena.attributes()


@trick
def worktree_config(arena: Arena) -> None:
    arena.config("core.repositoryFormatVersion", "1")
    arena.config("extensions.worktreeConfig", "true")
    for directory in (arena.common, arena.own):
        arena.filter(file=directory / "config.worktree")
        arena.config("core.fsmonitor", str(arena.program), directory / "config.worktree")
    arena.attributes()


@trick
def core_worktree(arena: Arena) -> None:
    elsewhere = arena.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".gitattributes").write_text("* filter=evil\n")
    arena.filter()
    arena.config("core.worktree", str(elsewhere))


@trick
def symbolic_link_to_a_configuration(arena: Arena) -> None:
    arena.filter()
    (arena.common / "config").rename(arena.root / "config")
    (arena.common / "config").symlink_to(arena.root / "config")
    arena.attributes()


# ---------------------------------------------------------------------------------------------- other git directories


@trick
def commondir_of_the_worktree(arena: Arena) -> None:
    (arena.own / "commondir").write_text(f"{arena.copied()}\n")


@trick
def commondir_of_the_repository(arena: Arena) -> None:
    (arena.common / "commondir").write_text(f"{arena.copied()}\n")


@trick
def gitfile_to_a_copied_git_directory(arena: Arena) -> None:
    (arena.tree / ".git").write_text(f"gitdir: {arena.copied()}/worktrees/x\n")


@trick
def gitfile_chain(arena: Arena) -> None:
    copied = arena.copied()
    step = arena.root / "step"
    step.mkdir()
    (step / "commondir").write_text(f"{copied}\n")
    for name in ("HEAD", "index"):
        shutil.copy(arena.own / name, step / name)
    (step / "gitdir").write_text(f"{arena.tree}/.git\n")
    (arena.tree / ".git").write_text("gitdir: ../../../../step\n")


@trick
def symbolic_link_as_git_directory(arena: Arena) -> None:
    copied = arena.copied()
    (arena.tree / ".git").unlink()
    (arena.tree / ".git").symlink_to(copied)


@trick
def symbolic_link_as_git_directory_of_the_repository(arena: Arena) -> None:
    copied = arena.copied()
    arena.common.rename(arena.root / "real")
    arena.common.symlink_to(copied)


@trick
def alternates(arena: Arena) -> None:
    copied = arena.copied()
    (arena.common / "objects/info/alternates").write_text(f"{copied}/objects\n../../../copied/objects\n")
    arena.attributes()


@trick
def bare_layout_around_the_work(arena: Arena) -> None:
    place = arena.tree / "vendor/lib"
    place.mkdir(parents=True)
    for name in ("objects", "refs"):
        shutil.copytree(arena.common / name, place / name)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    for key in ("core.fsmonitor", "diff.external", "core.pager"):
        arena.config(key, str(arena.program), place / "config")
    arena.config("core.worktree", str(place), place / "config")
    arena.filter(file=place / "config")
    (place / ".gitattributes").write_text("* filter=evil\n")
    arena.working_dir = place


@trick
def bare_layout_below_the_work(arena: Arena) -> None:
    bare_layout_around_the_work(arena)
    arena.working_dir = arena.cwd = arena.tree / "vendor/lib/src"
    arena.cwd.mkdir()


@trick
def bare_layout_as_the_current_directory(arena: Arena) -> None:
    bare_layout_around_the_work(arena)
    arena.working_dir, arena.cwd = None, arena.tree / "vendor/lib"


@trick
def nested_repository_of_an_archive(arena: Arena) -> None:
    arena.nested(arena.tree / "vendor/lib")
    arena.nested(arena.repo / "vendor/lib")


@trick
def nested_repository_as_the_current_directory(arena: Arena) -> None:
    arena.nested(arena.repo / "vendor/lib")
    arena.cwd = arena.repo / "vendor/lib"


@trick
def nested_repository_as_the_working_directory(arena: Arena) -> None:
    arena.nested(arena.repo / "vendor/lib")
    arena.working_dir = arena.repo / "vendor/lib"


@trick
def nested_repository_in_the_index(arena: Arena) -> None:
    arena.nested(arena.tree / "vendor/lib")
    git(arena.tree, "add", "vendor/lib")
    git(arena.tree, "commit", "-q", "-m", "nested")


# ---------------------------------------------------------------------------------------------------------- submodules


def _submodule(arena: Arena) -> Path:
    """A submodule whose git directory is in `modules`, in the repository and in the worktree."""
    source = arena.root / "source"
    source.mkdir()
    git(source, "init", "-q")
    arena.commit("f", "f\n", source)
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q")
    git(arena.tree, *add, str(source), "sub")
    git(arena.tree, "commit", "-q", "-m", "sub")
    modules = arena.own / "modules/sub"
    arena.filter(file=modules / "config")
    arena.config("core.fsmonitor", str(arena.program), modules / "config")
    (modules / "info").mkdir(exist_ok=True)
    (modules / "info/attributes").write_text("* filter=evil\n")
    (arena.tree / "sub/f").write_text("changed\n")
    return modules


@trick
def submodule_configuration(arena: Arena) -> None:
    _submodule(arena)


@trick
def submodule_that_gitmodules_never_ignores(arena: Arena) -> None:
    _submodule(arena)
    arena.config("submodule.sub.ignore", "none", arena.tree / ".gitmodules")
    arena.config("submodule.sub.update", f"!{arena.program}", arena.tree / ".gitmodules")
    for key, value in (("diff.ignoreSubmodules", "none"), ("submodule.sub.ignore", "none")):
        arena.config(key, value)
    arena.config("submodule.sub.update", f"!{arena.program}")


@trick
def submodule_log(arena: Arena) -> None:
    _submodule(arena)
    arena.commit("g", "g\n", arena.tree / "sub")
    arena.config("diff.submodule", "diff")
    arena.config("status.submoduleSummary", "true")
    arena.config("diff.submodule", "diff", arena.home / ".gitconfig")
    arena.config("status.submoduleSummary", "true", arena.home / ".gitconfig")


@trick
def submodule_recursion(arena: Arena) -> None:
    modules = _submodule(arena)
    (modules / "hooks").mkdir(exist_ok=True)
    shutil.copy(arena.program, modules / "hooks/post-checkout")
    for file in (arena.common / "config", arena.home / ".gitconfig"):
        arena.config("submodule.recurse", "true", file)
    arena.config("submodule.sub.active", "true")


@trick
def submodule_with_a_foreign_gitfile(arena: Arena) -> None:
    _submodule(arena)
    (arena.tree / "sub/.git").write_text(f"gitdir: {arena.copied()}\n")


# ------------------------------------------------------------------------------------------- programs of settings

_setting("fsmonitor", "core.fsmonitor")


@trick
def fsmonitor_in_the_index(arena: Arena) -> None:
    arena.config("core.fsmonitor", str(arena.program))
    arena.config("core.fsmonitorHookVersion", "1")
    git(arena.tree, "update-index", "--fsmonitor")


@trick
def hooks(arena: Arena) -> None:
    _hooks(arena, arena.common / "hooks")


@trick
def hooks_path(arena: Arena) -> None:
    _hooks(arena, arena.root / "more-hooks")
    arena.config("core.hooksPath", str(arena.root / "more-hooks"))


def _hooks(arena: Arena, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for name in (
        "post-checkout", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
        "post-merge", "reference-transaction", "post-index-change", "pre-auto-gc", "post-rewrite",
        "fsmonitor-watchman", "applypatch-msg", "pre-rebase",
    ):  # fmt: skip
        shutil.copy(arena.program, directory / name)


def _is_diff(arena: Arena) -> None:
    arena.attributes("* diff=evil\n")


_setting("diff_external", "diff.external")
_setting("diff_driver", "diff.evil.command", prepare=_is_diff)
_setting("textconv", "diff.evil.textconv", prepare=_is_diff)
_setting("pager", "core.pager", "pager.diff", "pager.log")
_setting("editor", "core.editor", "sequence.editor")
_setting("ssh_and_askpass", "core.sshCommand", "core.askPass", "core.gitProxy")
_setting("credential_helper", "credential.helper", value="!{program}")
_setting(
    "alias",
    *(f"alias.{name}" for name in ("diff", "add", "merge", "rev-parse", "status")),
    value="!{program}",
)
_setting("difftool_and_mergetool", "difftool.evil.cmd", "mergetool.evil.cmd", "merge.evil.cmd")
_setting("interactive_filter", "interactive.diffFilter", "add.interactive.useBuiltin")
_setting("pack_objects_hook", "uploadpack.packObjectsHook")
_setting("alternate_refs_command", "core.alternateRefsCommand")
_setting("trailer_command", "trailer.sign.command", "trailer.sign.cmd", "trailer.sign.key")
_setting(
    "other_programs",
    "man.evil.cmd",
    "browser.evil.cmd",
    "tar.evil.command",
    "sendemail.smtpserver",
    "web.browser",
)
_setting("safe_directories", "safe.directory", value="*")
_setting("bare_repositories_allowed", "safe.bareRepository", value="all", prepare=bare_layout_around_the_work)
_setting("template_directory", "init.templateDir", "commit.template", value="/nonexistent")


@trick
def merge_driver(arena: Arena) -> None:
    (arena.common / "info/attributes").write_text("* merge=evil\n")
    arena.config("merge.evil.driver", f"{arena.program} %O %A %B")
    arena.config("merge.default", "evil")
    arena.commit("a.txt", "other\n", arena.repo)


@trick
def merge_options_of_the_branch(arena: Arena) -> None:
    strategy = arena.bin / "git-merge-evil"
    shutil.copy(arena.program, strategy)
    arena.config("branch.main.mergeOptions", "-s evil")
    arena.config("pull.twohead", "evil")
    arena.commit("c.txt", "other\n", arena.repo)
    arena.environment["PATH"] = f"{os.environ['PATH']}:{arena.bin}"


@trick
def gpg_program(arena: Arena) -> None:
    arena.commit("c.txt", "other\n", arena.repo)
    for key in ("gpg.program", "gpg.openpgp.program", "gpg.ssh.program", "gpg.x509.program"):
        arena.config(key, str(arena.program))
    arena.config("gpg.ssh.defaultKeyCommand", str(arena.program))
    arena.config("commit.gpgSign", "true")


@trick
def signature_that_the_log_shows(arena: Arena) -> None:
    arena.config("gpg.program", str(arena.program))
    arena.config("log.showSignature", "true")
    arena.config("merge.verifySignatures", "true")
    body = git(arena.tree, "cat-file", "commit", "HEAD")
    head, _, text = body.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{text}\n"
    file = arena.root / "signed"
    file.write_text(signed)
    git(
        arena.tree,
        "update-ref",
        "refs/heads/sm/x",
        git(arena.tree, "hash-object", "-t", "commit", "-w", str(file)),
    )


def _promisor(arena: Arena, url: str, **more: str) -> None:
    """A partial clone: git fetches the objects that it misses."""
    arena.config("core.repositoryFormatVersion", "1")
    arena.config("extensions.partialClone", "origin")
    for key, value in {"url": url, "promisor": "true", "partialclonefilter": "blob:none", **more}.items():
        arena.config(f"remote.origin.{key}", value)
    arena.config("protocol.allow", "always")
    missing = git(arena.tree, "rev-parse", "main:a.txt")
    (arena.common / f"objects/{missing[:2]}/{missing[2:]}").unlink()


@trick
def promisor_by_ext(arena: Arena) -> None:
    arena.config("protocol.ext.allow", "always")
    _promisor(arena, f"ext::{arena.program} %S")


@trick
def promisor_by_ssh(arena: Arena) -> None:
    arena.config("core.sshCommand", str(arena.program))
    _promisor(arena, "ssh://localhost/x")


@trick
def promisor_by_upload_pack(arena: Arena) -> None:
    _promisor(arena, str(arena.copied()), uploadpack=str(arena.program))


@trick
def promisor_by_a_remote_helper(arena: Arena) -> None:
    shutil.copy(arena.program, arena.bin / "git-remote-evil")
    arena.environment["PATH"] = f"{os.environ['PATH']}:{arena.bin}"
    _promisor(arena, "/x", vcs="evil")


@trick
def promisor_with_credentials(arena: Arena) -> None:
    arena.config("credential.helper", f"!{arena.program}")
    arena.config("core.askPass", str(arena.program))
    arena.config("core.gitProxy", str(arena.program))
    _promisor(arena, "git://127.0.0.1:1/x")


@trick
def garbage_collection(arena: Arena) -> None:
    _hooks(arena, arena.common / "hooks")
    for key, value in (("gc.auto", "1"), ("gc.autoDetach", "false"), ("maintenance.auto", "true")):
        arena.config(key, value)
    arena.config("gc.recentObjectsHook", str(arena.program))
    arena.commit("c.txt", "other\n", arena.repo)


# ------------------------------------------------------------------------------------------------- objects and history


@trick
def replaced_objects(arena: Arena) -> None:
    arena.attributes()
    git(arena.tree, "add", ".gitattributes")
    git(arena.tree, "commit", "-q", "-m", "attributes")
    git(arena.repo, "replace", "main", "sm/x")
    arena.filter()


@trick
def grafts(arena: Arena) -> None:
    (arena.common / "info/grafts").write_text(f"{git(arena.tree, 'rev-parse', 'HEAD')}\n")
    arena.filter()
    arena.attributes()


@trick
def rerere(arena: Arena) -> None:
    arena.config("rerere.enabled", "true")
    arena.config("rerere.autoUpdate", "true")
    arena.config("merge.tool", "evil")
    arena.config("mergetool.evil.cmd", str(arena.program))
    arena.commit("a.txt", "conflict\n", arena.repo)


@trick
def unfinished_rebase(arena: Arena) -> None:
    (arena.own / "rebase-merge").mkdir()
    (arena.own / "rebase-merge/git-rebase-todo").write_text(f"exec {arena.program}\n")
    arena.config("sequence.editor", str(arena.program))


@trick
def variables_of_the_caller(arena: Arena) -> None:
    copied = arena.copied()
    for name in (
        "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_ASKPASS", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR",
        "GIT_PROXY_COMMAND", "SSH_ASKPASS",
    ):  # fmt: skip
        arena.environment[name] = str(arena.program)
    arena.environment |= {
        "GIT_DIR": str(copied),
        "GIT_COMMON_DIR": str(copied),
        "GIT_WORK_TREE": str(arena.repo),
        "GIT_CONFIG_GLOBAL": str(copied / "config"),
        "GIT_CONFIG_SYSTEM": str(copied / "config"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(arena.program),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{arena.program}'",
        "GIT_OBJECT_DIRECTORY": str(copied / "objects"),
        "GIT_TEMPLATE_DIR": str(arena.common),
    }
