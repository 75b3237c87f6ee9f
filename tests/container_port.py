"""Opens a port of this host in the network of a container, which needs no network for it."""

import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CLONE_NEWNET = 0x40000000  # setns(2)


@contextmanager
def forwarded(pid: int, port: int) -> Iterator[None]:
    """Forward 127.0.0.1:PORT in the network of process `pid` to the same port of this host. Needs root."""
    server = _listen(pid, port)
    thread = threading.Thread(target=_serve, args=(server, port), daemon=True)
    thread.start()
    try:
        yield
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _listen(pid: int, port: int) -> socket.socket:
    """A socket belongs to the network in which it was made, whoever uses it."""
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def make() -> None:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.create_server(("127.0.0.1", port)))
        except OSError as error:
            failed.append(error)
        finally:
            os.close(namespace)

    # The call changes the network of one thread, which ends here.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _serve(server: socket.socket, port: int) -> None:
    with suppress(OSError), server:
        while True:
            inside, _ = server.accept()
            threading.Thread(target=_connect, args=(inside, port), daemon=True).start()


def _connect(inside: socket.socket, port: int) -> None:
    with suppress(OSError), inside, socket.create_connection(("127.0.0.1", port)) as outside:
        back = threading.Thread(target=_copy, args=(outside, inside), daemon=True)
        back.start()
        _copy(inside, outside)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
