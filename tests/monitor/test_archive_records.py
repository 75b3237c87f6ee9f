"""The transcripts that belong to an archive."""

from pathlib import Path

import pytest

from sm.monitor import archive_records
from sm.monitor.transcripts import Root


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
    assert [*archive_records._transcripts(mains, root)][:4] == newest
    monkeypatch.setattr(archive_records, "FILES_MAX", 3)
    assert [*archive_records._transcripts(mains, root)] == newest[:3]
