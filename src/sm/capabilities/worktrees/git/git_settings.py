"""Decides which settings of a repository's configuration git gets. Pure.

A repository's configuration can name programs for git to run, and whoever made or wrote the repository may have chosen
them. So git never reads that file: it gets a configuration with the settings below, which can run nothing.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from sm.capabilities.worktrees.git.git_config import GitSetting
from sm.core.dataclass import dataclass

_BOOLEAN = re.compile(r"true|false|yes|no|on|off|0|1", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9-]{0,30}")
_TEXT = re.compile(r"[^\n\0]{0,300}")
_KEPT: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(
        (
            "core.filemode", "core.symlinks", "core.ignorecase", "core.trustctime",
            "core.sparsecheckout", "core.sparsecheckoutcone", "core.logallrefupdates", "core.precomposeunicode",
            "core.protecthfs", "core.protectntfs", "index.sparse", "diff.noprefix", "diff.mnemonicprefix",
            "diff.indentheuristic", "diff.suppressblankempty", "merge.renames", "commit.gpgsign",
            "user.useconfigonly",
        ),
        _BOOLEAN,
    ),
    **dict.fromkeys(
        (
            "core.autocrlf", "core.eol", "core.safecrlf", "core.checkstat", "core.whitespace", "core.abbrev",
            "diff.algorithm", "diff.context", "diff.interhunkcontext", "diff.renames", "diff.renamelimit",
            "diff.colormoved", "merge.conflictstyle", "merge.ff", "merge.renamelimit", "merge.directoryrenames",
            "core.sharedrepository", "color.ui", "color.diff", "i18n.commitencoding", "gpg.format",
        ),
        _WORD,
    ),
    **dict.fromkeys(("user.name", "user.email", "user.signingkey"), _TEXT),
}  # fmt: skip
"""Settings that change only how git reads, compares and shows files, with the values that are possible."""
_FORMATS: Mapping[str, re.Pattern[str]] = {
    "extensions.objectformat": re.compile("sha1|sha256"),
    "extensions.refstorage": re.compile("files|reftable"),
    "extensions.relativeworktrees": _BOOLEAN,
    "extensions.noop": re.compile(".*", re.DOTALL),
}
_READ_HERE = ("extensions.worktreeconfig", "extensions.partialclone", "extensions.preciousobjects")
"""Extensions that need no support: this module, and commands that neither fetch nor remove objects."""
_FILTER = ("clean", "smudge", "process")
_LFS = {
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.smudge": "git-lfs smudge -- %f",
    "filter.lfs.process": "git-lfs filter-process",
}
"""The settings of `git lfs install --local`: the program is that of the user's own PATH."""


@dataclass(frozen=True, slots=True)
class GitSettings:
    """`kept`: for git. `filters` and `drivers`: programs without which its answers would be wrong, by their keys."""

    kept: tuple[GitSetting, ...]
    filters: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Formats of the repository that this module does not know."""
    worktree: str | None = None
    """The worktree that the configuration names (`core.worktree`)."""
    bare: bool = False


def choose_git_settings(
    shared: Sequence[GitSetting], of_worktree: Sequence[GitSetting], own: Collection[str]
) -> GitSettings:
    """Choose from the configuration of a repository and of its worktree.

    `own`: the keys of the user's own configuration. A filter that it has too is that of the user.
    """
    used = [*shared, *(of_worktree if _is_true(_last(shared, "extensions.worktreeconfig")) else ())]
    kept: dict[str, GitSetting] = {}
    for setting in used:
        pattern = _KEPT.get(setting.key) or _FORMATS.get(setting.key)
        is_possible = pattern is not None and (setting.value is None or pattern.fullmatch(setting.value))
        if is_possible or (setting.key in _LFS and setting.value == _LFS[setting.key]):
            kept[setting.key] = setting
    version = _last(shared, "core.repositoryformatversion")
    unknown = [] if version is None or version.value in ("0", "1") else [version.key]
    unknown += [
        setting.key
        for setting in shared
        if setting.section == "extensions" and setting.key not in kept and setting.key not in _READ_HERE
    ]
    worktree, bare = _last(used, "core.worktree"), _last(used, "core.bare")
    return GitSettings(
        tuple(kept.values()),
        tuple(key for key in _programs(used, "filter", _FILTER, own) if key not in kept),
        _programs(used, "merge", ("driver",), own),
        tuple(dict.fromkeys(unknown)),
        None if worktree is None else worktree.value or "",
        _is_true(bare),
    )


def _programs(
    settings: Iterable[GitSetting], section: str, names: Collection[str], own: Collection[str]
) -> tuple[str, ...]:
    """The keys of programs, without those of a filter or driver that the user's own configuration defines."""
    mine = {key.rpartition(".")[0] for key in own if key.startswith(f"{section}.")}
    found = (s.key for s in settings if s.section == section and s.subsection and s.name in names and s.value)
    return tuple(dict.fromkeys(key for key in found if key.rpartition(".")[0] not in mine))


def _last(settings: Iterable[GitSetting], key: str) -> GitSetting | None:
    return next((setting for setting in reversed([*settings]) if setting.key == key), None)


def _is_true(setting: GitSetting | None) -> bool:
    return setting is not None and (
        setting.value is None or setting.value.lower() in ("true", "yes", "on", "1")
    )
