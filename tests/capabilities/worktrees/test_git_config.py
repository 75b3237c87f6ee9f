"""The format of git's configuration, and the settings of it that git gets."""

import pytest

from sm.capabilities.worktrees.git.git_config import GitSetting, parse_git_config, write_git_config
from sm.capabilities.worktrees.git.git_settings import choose_git_settings

TEXT = b"""\xef\xbb\xbf; comment
[core]
\tbare = false ; comment
\tfileMode
[Filter "Evil\\"Name"] clean = "a \\"b\\" # c" d\\
 e # f
[remote.Old]
url=x
"""


def test_settings_are_read_as_git_reads_them() -> None:
    assert parse_git_config(TEXT) == (
        GitSetting("core", "", "bare", "false"),
        GitSetting("core", "", "filemode", None),
        GitSetting("filter", 'Evil"Name', "clean", 'a "b" # c d e'),
        GitSetting("remote", "old", "url", "x"),
    )


@pytest.mark.parametrize(
    "text",
    ["[core", "[core]\n= x", "bare = x", '[core]\nx = "a', '[a "b\n"]', "[core]\nx = \\q", "[core]\nx y"],
)
def test_file_that_git_refuses_or_might_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line "):
        parse_git_config(text.encode())


def test_written_settings_are_read_again() -> None:
    settings = (
        GitSetting("user", "", "name", ' Ann "A" \\ Ö #;\t'),
        GitSetting("filter", 'a"b\\c', "x", "1"),
        GitSetting("core", "", "symlinks", None),
    )
    assert parse_git_config(write_git_config(settings)) == settings


def chosen(text: str, worktree: str = "", own: tuple[str, ...] = ()) -> dict[str, str | None]:
    settings = choose_git_settings(parse_git_config(text.encode()), parse_git_config(worktree.encode()), own)
    return {setting.key: setting.value for setting in settings.kept}


def filters(text: str, *own: str) -> tuple[str, ...]:
    return choose_git_settings(parse_git_config(text.encode()), (), own).filters


def test_only_settings_that_run_nothing_are_kept() -> None:
    text = """
    [core]
        autocrlf = input
        fsmonitor = /evil
        hooksPath = /evil
        pager = /evil
        eol = "x\\ny"
    [user]
        name = Ann
    [alias]
        diff = !evil
    [include]
        path = /evil
    [diff "evil"]
        textconv = /evil
    """
    assert chosen(text) == {"core.autocrlf": "input", "user.name": "Ann"}


def test_configuration_of_the_worktree_counts_only_with_its_extension() -> None:
    worktree = "[core]\nsparseCheckout = true"
    assert chosen("", worktree) == {}
    assert chosen("[extensions]\nworktreeConfig = true", worktree) == {"core.sparsecheckout": "true"}


def test_program_of_a_filter_is_named_unless_the_user_has_the_filter_too() -> None:
    text = '[filter "x"]\nclean = evil\nsmudge =\nrequired = true\n[merge "y"]\ndriver = evil'
    assert filters(text) == ("filter.x.clean",)
    assert filters(text, "filter.x.smudge") == ()
    assert filters(text, "filter.xy.clean") == ("filter.x.clean",)
    assert choose_git_settings(parse_git_config(text.encode()), (), ()).drivers == ("merge.y.driver",)


def test_filter_of_git_lfs_is_kept_only_as_git_lfs_writes_it() -> None:
    text = '[filter "lfs"]\nclean = git-lfs clean -- %f\nsmudge = {}\nrequired = true'
    assert filters(text.format("git-lfs smudge -- %f")) == ()
    assert chosen(text.format("git-lfs smudge -- %f"))["filter.lfs.clean"] == "git-lfs clean -- %f"
    assert filters(text.format("./git-lfs smudge -- %f")) == ("filter.lfs.smudge",)


def test_unknown_format_of_a_repository_is_named() -> None:
    text = "[core]\nrepositoryFormatVersion = {}\n[extensions]\nobjectFormat = sha256\n{} = x"
    settings = choose_git_settings(parse_git_config(text.format(1, "noop").encode()), (), ())
    assert settings.unknown == ()
    assert ("extensions.objectformat", "sha256") in {(s.key, s.value) for s in settings.kept}
    settings = choose_git_settings(parse_git_config(text.format(2, "future").encode()), (), ())
    assert settings.unknown == ("core.repositoryformatversion", "extensions.future")
