"""Leaves the process tree of its parent: `python leave_tree.py WAY OUT`. What stays writes its pid to OUT.

The name of a way is that of a function below, without `by_`.
"""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import NoReturn

OUT = sys.argv[2]
STAY = f"echo $$ >{OUT}; exec sleep 1000000"
_CLONE, _CLONE_PARENT, _PR_SET_NAME = 56, 0x8000, 15
LIBC = ctypes.CDLL(None)


def stay() -> NoReturn:
    with open(OUT, "w") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        time.sleep(1e6)


def fork() -> None:
    """Go on in a child."""
    if os.fork():
        os._exit(0)


def daemonize() -> None:
    fork()
    os.setsid()
    fork()
    os.chdir("/")


def run(*argv: str) -> NoReturn:
    fork()
    os.execvp(argv[0], argv)


def by_setsid() -> None:
    fork()
    os.setsid()
    stay()


def by_double_fork() -> None:
    fork()
    fork()
    stay()


def by_daemon() -> None:
    daemonize()
    os.umask(0)
    stay()


def by_closed_files() -> None:
    daemonize()
    os.closerange(0, 1024)
    stay()


def by_nohup() -> None:
    run("nohup", "sh", "-c", STAY)


def by_disown() -> None:
    run("bash", "-c", f"sh -c '{STAY}' & disown; exit")


def by_job_control() -> None:
    run("bash", "-mc", f"sh -c '{STAY}' & exit")


def by_process_group() -> None:
    fork()
    os.setpgid(0, 0)
    fork()
    stay()


def by_nested_shells() -> None:
    inner = STAY.replace("$$", "\\$\\$")  # else the shell around the quotes would put its own pid
    run("sh", "-c", f"(sh -c '(setsid sh -c \"{inner}\" &)' &)")


def by_other_program() -> None:
    daemonize()
    os.execv("/bin/sh", ["[kworker/0:1]", "-c", STAY])


def by_new_name() -> None:
    daemonize()
    LIBC.prctl(_PR_SET_NAME, b"kworker/0:1")
    stay()


def by_other_user() -> None:
    daemonize()
    with open(OUT, "w") as file:
        os.fchown(file.fileno(), 65534, 65534)
        os.setuid(65534)
        file.write(f"{os.getpid()}\n")
    time.sleep(1e6)


def by_script() -> None:
    fork()
    subprocess.Popen(["script", "-qc", STAY, "/dev/null"], start_new_session=True, stdin=subprocess.DEVNULL)


def by_multiprocessing() -> None:
    def child() -> None:
        daemonize()
        stay()

    multiprocessing.get_context("fork").Process(target=child).start()


def by_clone_parent() -> None:
    if LIBC.syscall(_CLONE, _CLONE_PARENT | int(signal.SIGCHLD), 0, 0, 0, 0):
        os._exit(0)
    os.setsid()
    stay()


def by_ignored_signals() -> None:
    daemonize()
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    stay()


def by_stop() -> None:
    daemonize()
    with open(OUT, "w") as file:
        file.write(f"{os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGSTOP)


def by_zombie_parent() -> None:
    fork()
    os.setsid()
    if os.fork():
        time.sleep(1e6)  # never waits for its child
    if os.fork():
        os._exit(0)
    stay()


def by_fifo() -> None:
    daemonize()
    os.mkfifo(OUT + ".fifo")
    run("sh", "-c", f"echo $$ >{OUT}; read -r line <{OUT}.fifo")


def by_terminal_server() -> None:
    run("tmux", "-S", OUT + ".tmux", "-f", "/dev/null", "new-session", "-d", STAY)


def by_pid_namespace() -> None:
    daemonize()
    child = subprocess.Popen(
        ["unshare", "--pid", "--fork", "sh", "-c", "setsid sleep 1000000 & sleep 1000000"]
    )
    with open(OUT, "w") as file:
        file.write(f"{child.pid}\n")
    child.wait()


def by_mount_namespace() -> None:
    daemonize()
    os.execvp("unshare", ["unshare", "--mount", "--uts", "--ipc", "sh", "-c", STAY])


def by_fork_storm() -> None:
    daemonize()
    with open(OUT, "w") as file:
        file.write(f"{os.getpid()}\n")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.2)
            os._exit(0)
        time.sleep(0.01)


def by_cron() -> None:
    daemonize()
    os.execve(
        "/bin/sh", ["/bin/sh", "-c", STAY], {"LOGNAME": "root", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    )


def by_thread_of_a_dead_leader() -> None:
    """The main thread ends, and another thread stays: the process looks like a zombie."""
    import threading

    daemonize()
    threading.Thread(target=stay).start()
    LIBC.syscall(60, 0)  # exit(2) of this thread only


if __name__ == "__main__":
    globals()["by_" + sys.argv[1]]()
