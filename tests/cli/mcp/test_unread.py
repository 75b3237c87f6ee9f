"""The wait for the client to read an answer, on the two kinds of stdout that clients give `sm mcp`."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sm.cli.mcp.unread import wait_for_reader

LINE = b"x" * 20_000


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


@contextmanager
def sockets() -> Iterator[tuple[int, int]]:
    """A pair as claude makes it for its servers."""
    read, write = socket.socketpair()
    with read, write:
        yield read.fileno(), write.fileno()


@pytest.fixture(params=[pipe, sockets], ids=["pipe", "sockets"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    with request.param() as opened:
        yield opened


def test_wait_ends_when_all_is_read(ends: tuple[int, int]) -> None:
    read, write = ends
    os.write(write, LINE)
    assert not wait_for_reader(write, 0)
    reader = threading.Thread(target=os.read, args=(read, len(LINE)))
    reader.start()
    assert wait_for_reader(write, 60)
    reader.join()


def test_part_that_was_read_is_not_all(ends: tuple[int, int]) -> None:
    read, write = ends
    os.write(write, LINE)
    os.write(write, LINE)
    os.read(read, 100)
    assert not wait_for_reader(write, 0)


def test_nothing_is_known_of_the_readers_of_a_file() -> None:
    file = os.memfd_create("output")
    assert not wait_for_reader(file, 60)
    os.close(file)
