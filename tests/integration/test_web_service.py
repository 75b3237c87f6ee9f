"""`sm web` that the daemon keeps running: its starts, its crashes and those of the daemon, and its end."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from sm.core.models import Process
from sm.linux.processes import identify, is_alive
from sm.web.address import WebAddress, running_server
from tests.instance import SM, Instance
from tests.waits import until


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance("web: {port: 0, start_with_daemon: true}") as instance:
        yield instance


def server(instance: Instance, *, but: Process | None = None) -> tuple[Process, WebAddress]:
    """The running server, when it is another one than `but`."""

    def look() -> tuple[Process, WebAddress] | None:
        address = running_server(str(instance.state / "web"))
        process = None if address is None else identify(address.pid)
        return None if address is None or process in (None, but) else (process, address)

    found: tuple[Process, WebAddress] = until(look, "sm web runs")
    return found


def log_has(instance: Instance, text: str) -> None:
    path = instance.state / "log" / "daemon.log"
    until(lambda: text in path.read_text(), f"the log has {text!r}")


def test_daemon_starts_the_server_again_when_it_is_killed_and_ends_it_with_itself(instance: Instance) -> None:
    instance.start_daemon()
    first, address = server(instance)
    assert instance.sm("web", "link").startswith(f"http://127.0.0.1:{address.port}/#")
    assert (
        f"sm web: http://127.0.0.1:{address.port}; for a link: sm web link" in instance.run("doctor").stdout
    )
    assert "sm web already runs" in instance.refused("web", exit_code=7)
    os.kill(first.pid, signal.SIGKILL)
    second, _ = server(instance, but=first)
    instance.sm("daemon", "stop")
    assert not is_alive(second)
    assert running_server(str(instance.state / "web")) is None


def test_server_of_a_killed_daemon_is_taken_over_by_the_next_one(instance: Instance) -> None:
    instance.start_daemon()
    process, _ = server(instance)
    # Before, the server may end with its daemon: it has not printed its address yet, which nobody would read.
    log_has(instance, f"started sm web, pid {process.pid}")
    instance.kill_daemon()
    assert is_alive(process)
    instance.start_daemon()
    log_has(instance, f"found sm web, pid {process.pid}")
    assert server(instance)[0] == process
    instance.sm("daemon", "stop")
    assert not is_alive(process)


def test_server_of_a_person_outlives_the_daemon(instance: Instance) -> None:
    with subprocess.Popen(
        [SM, "web", "--service"], env=instance.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline().startswith("serves http://127.0.0.1:")
        assert not instance.socket.exists()
        instance.start_daemon()
        log_has(instance, f"found sm web, pid {started.pid}")
        instance.sm("daemon", "stop")
        assert started.poll() is None
        started.terminate()
        assert started.wait() == 0


def test_status_and_doctor_name_the_reason_when_the_server_does_not_run(instance: Instance) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        instance.config.write_text(instance.config.read_text().replace("port: 0", f"port: {port}"))
        instance.start_daemon()
        reason = f"sm web does not run: cannot listen on port {port}: address already in use"
        until(lambda: reason in str(instance.get("/v1/status")), "the reason")
        assert reason in instance.sm("status")
        assert "warning  sm web does not run" in instance.run("doctor").stdout
    server(instance)
    until(lambda: reason not in str(instance.get("/v1/status")), "it runs")


def test_service_prints_no_link(instance: Instance) -> None:
    assert "--service prints no link" in instance.refused("web", "--service", "--qr", exit_code=2)
