"""How `sm demo` judges the results of its agents."""

from sm.cli.commands import demo
from tests.cli.samples import session


def test_demo_detects_unplanned_results() -> None:
    def demo_session(
        kind: str, id: str, status: str, parent: str | None, **more: object
    ) -> dict[str, object]:
        return session(id, agent_type=kind, status=status, parent_session_id=parent, **more)

    good = [
        demo_session("Coordinator", "1", "completed", None),
        demo_session("Builder", "2", "completed", "1"),
        demo_session("Linter", "3", "completed", "2"),
        demo_session("Tester", "4", "error", "1"),
        demo_session("Fetcher", "5", "error", "1", exit_code=1),
    ]
    assert demo.find_differences(good) == []
    for place, wrong in (
        (2, demo_session("Linter", "3", "completed", "1")),
        (3, demo_session("Tester", "4", "completed", "1")),
        (4, demo_session("Fetcher", "5", "error", "1", exit_code=2)),
    ):
        assert len(demo.find_differences([*good[:place], wrong, *good[place + 1 :]])) == 1
    assert demo.find_differences(good[:-1]) != []
