"""The mapping of paths of a container to paths of the host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.errors import InvalidPath
from sm.sandboxes.path_map import Mount, PathMap

MAP = PathMap(
    (
        Mount("/state/ws/shop/home", "/home/sandbox"),
        Mount("/srv/shop", "/srv/shop"),
        Mount("/srv/shop/.git", "/srv/shop/.git"),
        Mount("/docs", "/docs"),
        Mount("/docs", "/vault"),
        Mount("/data/cache", "/srv/shop/cache"),
        Mount("/data/file.txt", "/data/file.txt"),
    )
)


@pytest.mark.parametrize(
    ("inside", "host"),
    [
        ("/home/sandbox", "/state/ws/shop/home"),
        ("/home/sandbox/.claude/a.jsonl", "/state/ws/shop/home/.claude/a.jsonl"),
        ("/srv/shop", "/srv/shop"),
        ("/srv/shop/.git/config", "/srv/shop/.git/config"),
        ("/srv/shop/cache/x", "/data/cache/x"),
        ("/vault/a", "/docs/a"),
        ("/docs/a", "/docs/a"),
        ("/data/file.txt", "/data/file.txt"),
        ("//srv/./shop//a/", "/srv/shop/a"),
        ("/srv/shop/a..b/...", "/srv/shop/a..b/..."),
    ],
)
def test_path_of_container_maps_to_the_mount_with_the_longest_prefix(inside: str, host: str) -> None:
    assert MAP.to_host(inside) == host


@pytest.mark.parametrize(
    "inside",
    [
        "/",
        "/etc/passwd",
        "/home/sandbox2/x",
        "/home",
        "/srv/shopping",
        "/srv/shop/../../etc/shadow",
        "/home/sandbox/..",
        "/scratch/abc/x",
        "/tmp/x",
        "/run/sm/socket/s",
        "/data/file.txt.bak",
        "srv/shop",
        "",
        "~/x",
        "/srv/shop/a\0b",
    ],
)
def test_path_outside_of_the_mounts_is_refused(inside: str) -> None:
    with pytest.raises(InvalidPath):
        MAP.to_host(inside)


_PATHS = st.lists(st.sampled_from(["a", "b", "c", "..", ".", "", "a\0"]), max_size=6).map(
    lambda parts: "/" + "/".join(parts)
)
_DIRECTORIES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)


@given(st.lists(st.builds(Mount, _DIRECTORIES, _DIRECTORIES), max_size=4), _PATHS)
def test_mapped_path_lies_in_a_mount(mounts: list[Mount], path: str) -> None:
    paths = PathMap(mounts)
    try:
        host = paths.to_host(path)
    except InvalidPath:
        pass
    else:
        assert any(host == m.source or host.startswith(m.source + "/") for m in mounts)
        assert ".." not in path.split("/")
