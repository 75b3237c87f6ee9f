"""Bounded reads of real files, links, pipes and directories."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sm.linux.files import NotRegular, directory_below, read_file, read_or_empty, regular_file


def make_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("secret")
    path.symlink_to(target)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("length", "data", "cut"), [(0, b"", False), (5, b"aaaaa", False), (6, b"aaaaa", True)]
)
def test_read_file_reads_up_to_the_limit(tmp_path: Path, length: int, data: bytes, *, cut: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * length)
    content = read_file(str(path), 5)
    assert (content.data, content.cut) == (data, cut)
    assert content.status.st_ino == path.stat().st_ino
    assert read_or_empty(str(path), 5) == data


def test_read_file_stops_at_the_limit_of_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)
    assert read_file(str(path), 100).data == bytes(100)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (os.mkfifo, NotRegular),
        (os.mkdir, NotRegular),
        (make_socket, OSError),
        (make_link, OSError),
        (lambda path: None, FileNotFoundError),
    ],
    ids=["pipe", "directory", "socket", "link", "nothing"],
)
def test_read_file_refuses_everything_except_regular_files(
    tmp_path: Path, make: Callable[[Path], None], error: type[OSError]
) -> None:
    path = tmp_path / "file"
    make(path)
    with pytest.raises(error):
        read_file(str(path), 10)
    assert read_or_empty(str(path), 10) == b""


def test_read_file_follows_a_link_only_when_asked(tmp_path: Path) -> None:
    make_link(tmp_path / "file")
    assert read_file(str(tmp_path / "file"), 10, follow=True).data == b"secret"
    with pytest.raises(OSError, match="symbolic links") as caught:
        read_file(str(tmp_path / "file"), 10)
    assert caught.value.errno == errno.ELOOP


def test_read_file_raises_not_found_when_the_path_has_a_null_character() -> None:
    with pytest.raises(FileNotFoundError):
        read_file("/tmp/a\0b", 10)
    assert read_or_empty("/tmp/a\0b", 10) == b""


def test_read_or_empty_does_not_block_when_the_path_is_an_open_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    os.write(writer, b"text")
    assert read_or_empty(str(tmp_path / "pipe"), 10) == b""
    os.close(writer)
    os.close(reader)


def test_regular_file_closes_its_descriptor_when_the_body_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeyError), regular_file(str(tmp_path / "file")) as descriptor:
        raise KeyError
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_directory_below_opens_a_directory_for_relative_reads(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("text")
    with directory_below(str(tmp_path), ("a", "b")) as directory:
        assert read_file("file", 10, directory=directory).data == b"text"


@pytest.mark.parametrize("part", ["a", "b"])
def test_directory_below_refuses_a_symbolic_link(tmp_path: Path, part: str) -> None:
    real = tmp_path / "real"
    (real / "b").mkdir(parents=True)
    if part == "a":
        (tmp_path / "a").symlink_to(real)
    else:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b").symlink_to(real / "b")
    with (
        pytest.raises(OSError, match=r"symbolic links|Not a directory"),
        directory_below(str(tmp_path), ("a", "b")),
    ):
        pass


def test_directory_below_follows_a_link_at_its_base_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "base").symlink_to(tmp_path / "real")
    with directory_below(str(tmp_path / "base"), ("a",), follow=True):
        pass
    with (
        pytest.raises(OSError, match=r"symbolic links|Not a directory"),
        directory_below(str(tmp_path / "base"), ("a",)),
    ):
        pass
