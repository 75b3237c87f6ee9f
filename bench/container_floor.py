"""The same container as sm makes, with the command `docker run`: the floor of a container."""

from collections.abc import Iterator

from sm.sandboxes.docker.spec import ContainerSpec


def run_options(spec: ContainerSpec) -> list[str]:
    """The arguments of `docker run` that make the container of the spec, without its name and labels."""
    host = spec.host_config
    return [
        *("--detach", "--init", "--read-only", "--cap-drop", "ALL", "--no-healthcheck"),
        *_repeated("--security-opt", host["security_opt"]),
        f"--pids-limit={host['pids_limit']}",
        f"--memory={host['mem_limit']}",
        f"--memory-swap={host['memswap_limit']}",
        f"--memory-reservation={host['mem_reservation']}",
        f"--cpu-period={host['cpu_period']}",
        f"--cpu-quota={host['cpu_quota']}",
        f"--ipc={host['ipc_mode']}",
        f"--network={spec.network}",
        f"--log-driver={host['log_config']['type']}",
        f"--hostname={spec.options['hostname']}",
        f"--user={spec.options['user']}",
        f"--workdir={spec.options['working_dir']}",
        *_repeated("--tmpfs", [f"{path}:{options}" for path, options in host["tmpfs"].items()]),
        *_repeated("--mount", [_bind(mount) for mount in host["mounts"]]),
        *("--entrypoint", spec.options["entrypoint"][0], spec.options["image"], *spec.options["command"]),
    ]


def _repeated(option: str, values: list[str]) -> Iterator[str]:
    for value in values:
        yield from (option, value)


def _bind(mount: dict[str, object]) -> str:
    mode = ",readonly,bind-nonrecursive=true" if mount["ReadOnly"] else ""
    return f"type=bind,source={mount['Source']},target={mount['Target']},bind-propagation=rprivate{mode}"
