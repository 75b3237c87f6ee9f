"""The facts of Docker that other rooms need. Standard library alone."""

from sm.core.programs import EngineProgram

PROGRAM = EngineProgram(
    name="docker",
    title="Docker",
    url_pattern=r"unix:///[^\0\s]+",
    variable_prefix="DOCKER_",
    host_name="host.docker.internal",
    cgroup_prefix="docker-",
    sockets=("docker.sock", "containerd.sock"),
    data=("/var/lib/docker", "/var/lib/containerd"),
    home_secrets=(".docker",),
)
