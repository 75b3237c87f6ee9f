"""The transcripts that belong to an archive."""

from pathlib import Path

import pytest

from sm.capabilities.archives import collector
from sm.monitor.transcripts import Root, archive_names


def test_files_of_the_newest_conversations_come_first_and_their_number_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "before", "now"):
        (tmp_path / name / "subagents").mkdir(parents=True)
        (tmp_path / f"{name}.jsonl").touch()
        (tmp_path / name / "subagents" / "agent-1.jsonl").touch()
    mains = [str(tmp_path / f"{name}.jsonl") for name in ("old", "before", "now")]
    newest = ["now.jsonl", "now/subagents/agent-1.jsonl", "before.jsonl", "before/subagents/agent-1.jsonl"]
    root = Root(str(tmp_path))
    assert [*collector._transcripts(mains, root)][:4] == newest
    monkeypatch.setattr(collector, "FILES_MAX", 3)
    assert [*collector._transcripts(mains, root)] == newest[:3]


@pytest.mark.parametrize(
    ("mains", "names"),
    [
        (["/p/work/x.jsonl", "/p/other/y.jsonl"], ["x.jsonl", "y.jsonl"]),
        (
            ["/p/work/x.jsonl", "/p/other/x.jsonl", "/p/other/y.jsonl"],
            ["work/x.jsonl", "other/x.jsonl", "y.jsonl"],
        ),
        (["/p/a/work/x.jsonl", "/p/b/work/x.jsonl"], ["a/work/x.jsonl", "b/work/x.jsonl"]),
        (["/p/x.jsonl", "/p/work/x.jsonl"], ["x.jsonl", "work/x.jsonl"]),
        (["/p/work/x.jsonl", "/p/work/../other/x.jsonl"], ["work/x.jsonl", "other/x.jsonl"]),
        ([], []),
    ],
)
def test_archive_names_have_the_directories_of_conversations_with_the_same_file_name(
    mains: list[str], names: list[str]
) -> None:
    assert archive_names(mains) == dict(zip(mains, names, strict=True))


def test_archive_has_both_conversations_with_the_same_file_name_and_their_sub_agents(tmp_path: Path) -> None:
    mains = list[str]()
    for directory in ("work", "other"):
        main = tmp_path / directory / "x.jsonl"
        (main.with_suffix("") / "subagents").mkdir(parents=True)
        main.touch()
        (main.with_suffix("") / "subagents" / "agent-1.jsonl").touch()
        mains.append(str(main))
    assert [*collector._transcripts(mains, Root(str(tmp_path)))] == [
        f"{directory}/x{rest}"
        for directory in ("other", "work")
        for rest in (".jsonl", "/subagents/agent-1.jsonl")
    ]
