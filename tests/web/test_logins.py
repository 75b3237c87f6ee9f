"""Logins, their codes and scopes, and the file that keeps them."""

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from sm.board import ACTIONS
from sm.errors import LimitReached, NameTaken, NotFound, UsageError
from sm.web.login_store import LoginStore
from sm.web.logins import CODE_S, IDLE_MAX_S, GuessLimit, WebScope, scope_of

NOW_S = 1_800_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> LoginStore:
    return LoginStore(str(tmp_path / "web"))


def logged_in(store: LoginStore, name: str = "phone", scope: WebScope = WebScope.ANSWER) -> str:
    code, _ = store.add_code(name, scope, NOW_S)
    traded = store.redeem(code, NOW_S)
    assert traded is not None
    return traded[0]


def test_code_works_once(store: LoginStore) -> None:
    code, name = store.add_code("phone", WebScope.ANSWER, NOW_S)
    traded = store.redeem(code, NOW_S)
    assert traded is not None
    token, login = traded
    assert (name, login.name, login.scope) == ("phone", "phone", WebScope.ANSWER)
    assert store.find(token, NOW_S) == login
    assert store.redeem(code, NOW_S) is None
    assert store.find(code, NOW_S) is None
    assert store.redeem(token, NOW_S) is None


@pytest.mark.parametrize(("age_s", "works"), [(0, True), (CODE_S, True), (CODE_S + 0.1, False), (-1, False)])
def test_code_works_for_two_minutes(store: LoginStore, age_s: float, works: bool) -> None:
    code, _ = store.add_code("phone", WebScope.ANSWER, NOW_S)
    assert (store.redeem(code, NOW_S + age_s) is not None) is works


@pytest.mark.parametrize(("age_s", "works"), [(IDLE_MAX_S, True), (IDLE_MAX_S + 1, False)])
def test_login_ends_when_it_is_not_used(store: LoginStore, age_s: float, works: bool) -> None:
    token = logged_in(store)
    assert (store.find(token, NOW_S + age_s) is not None) is works


def test_login_that_is_used_does_not_end(store: LoginStore) -> None:
    token = logged_in(store)
    assert store.find(token, NOW_S + IDLE_MAX_S - 1)
    assert store.find(token, NOW_S + 2 * IDLE_MAX_S - 2)


def test_store_keeps_no_secret_and_nobody_else_can_read_it(store: LoginStore) -> None:
    code, _ = store.add_code("wall", WebScope.LOOK, NOW_S)
    token = logged_in(store)
    content = Path(store.directory, "logins.json").read_text()
    assert code not in content
    assert token not in content
    assert stat.S_IMODE(os.stat(store.directory).st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in Path(store.directory).iterdir()} == {0o600}


def test_revoke_ends_a_login_and_its_codes_in_every_process(store: LoginStore) -> None:
    token, other = logged_in(store), logged_in(store, "wall", WebScope.LOOK)
    code, _ = store.add_code("tablet", WebScope.ALL, NOW_S)
    assert LoginStore(store.directory).revoke("phone") == ["phone"]
    assert store.find(token, NOW_S) is None
    assert store.find(other, NOW_S)
    assert LoginStore(store.directory).revoke(None) == ["tablet", "wall"]
    assert store.redeem(code, NOW_S) is None
    assert store.find(other, NOW_S) is None
    with pytest.raises(NotFound):
        store.revoke("phone")


def test_names_are_unique_and_chosen_without_one(store: LoginStore) -> None:
    logged_in(store, "phone")
    with pytest.raises(NameTaken):
        store.add_code("phone", WebScope.ANSWER, NOW_S)
    assert store.add_code(None, WebScope.ALL, NOW_S)[1] == "browser-1"
    assert store.add_code(None, WebScope.ALL, NOW_S)[1] == "browser-2"
    assert store.add_code(None, WebScope.ALL, NOW_S + CODE_S + 1)[1] == "browser-1"


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "-a", "ä", "a" * 41, "a)", "a: b"])
def test_name_that_could_forge_a_line_of_the_audit_log_is_refused(store: LoginStore, name: str) -> None:
    with pytest.raises(UsageError):
        store.add_code(name, WebScope.ALL, NOW_S)


def test_store_limits_the_codes(store: LoginStore) -> None:
    for _ in range(20):
        store.add_code(None, WebScope.ALL, NOW_S)
    with pytest.raises(LimitReached):
        store.add_code(None, WebScope.ALL, NOW_S)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"logins": [{}], "codes": []}', '{"logins": 1}', "\xff"])
def test_nobody_is_logged_in_when_the_file_is_broken(store: LoginStore, content: str) -> None:
    token = logged_in(store)
    Path(store.directory, "logins.json").write_bytes(content.encode("latin-1"))
    assert store.find(token, NOW_S) is None


def test_link_in_place_of_the_file_is_not_followed(store: LoginStore, tmp_path: Path) -> None:
    token = logged_in(store)
    path = Path(store.directory, "logins.json")
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    assert store.find(token, NOW_S) is None


def _redeem(directory: str, code: str, answers: "multiprocessing.SimpleQueue[bool]") -> None:
    answers.put(LoginStore(directory).redeem(code, NOW_S) is not None)


@pytest.mark.processes
def test_code_works_once_when_processes_race(store: LoginStore) -> None:
    code, _ = store.add_code("phone", WebScope.ANSWER, NOW_S)
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[bool] = context.SimpleQueue()
    racers = [context.Process(target=_redeem, args=(store.directory, code, answers)) for _ in range(6)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(answers.get() for _ in racers) == [False] * 5 + [True]


def test_guess_limit_allows_five_wrong_guesses_a_minute() -> None:
    limit = GuessLimit()
    for second in range(5):
        assert not limit.is_reached(second)
        limit.count(second)
    assert limit.is_reached(5)
    limit.count(5)
    assert limit.is_reached(59.9)
    assert not limit.is_reached(60)
    limit.count(60)
    assert limit.is_reached(60.5)


def test_each_action_needs_the_scope_that_its_effect_needs() -> None:
    needed = {name: scope_of(name).value for name in ACTIONS}
    assert {name for name, scope in needed.items() if scope == "look"} == {
        "output",
        "why",
        "copy-id",
    }
    answers = {"approve", "deny", "answer", "send", "archive", "unarchive", "interrupt", "read", "seen"}
    assert {name for name, scope in needed.items() if scope == "answer"} == answers
    assert scope_of("an action of tomorrow") is WebScope.ALL


def test_scope_includes_smaller_ones() -> None:
    order = [WebScope.LOOK, WebScope.ANSWER, WebScope.ALL]
    for place, scope in enumerate(order):
        assert [scope.includes(needed) for needed in order] == [n <= place for n in range(3)]


def test_list_of_logins_shows_a_use_of_the_last_two_minutes(store: LoginStore) -> None:
    token = logged_in(store)
    assert store.find(token, NOW_S + 1800) is not None
    (listed,) = LoginStore(store.directory).read().logins
    assert listed.used_s == NOW_S + 1800
    assert store.find(token, NOW_S + 1801) is not None
    (listed,) = LoginStore(store.directory).read().logins
    assert listed.used_s == NOW_S + 1800, "not every request writes the file"
