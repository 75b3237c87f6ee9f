"""The calls of the SDK that read, make and change containers. Each call blocks: `Engine.call` runs it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sm.sandboxes.containers import ContainerRecord
from sm.sandboxes.docker.engine import EngineError
from sm.sandboxes.docker.spec import ContainerSpec
from sm.sandboxes.path_map import Mount

if TYPE_CHECKING:
    from docker import DockerClient

STOP_S: Final = 5
"""The engine kills a container that does not end in this time after SIGTERM."""


def labels_of_instance(instance: str) -> tuple[str, ...]:
    """Filters that select every container of an instance."""
    return "app=sm", f"instance={instance}"


def find_all(client: "DockerClient", labels: Sequence[str]) -> list[ContainerRecord]:
    """Every container with these labels, running or not."""
    found = client.api.containers(all=True, filters={"label": list(labels)})
    records = (inspect(client, entry["Id"]) for entry in found)
    return [record for record in records if record is not None and record.labels.get("type") != "image"]


def inspect(client: "DockerClient", name: str) -> ContainerRecord | None:
    """`name`: the name or the id. None when there is no such container."""
    from docker.errors import NotFound

    try:
        answer: dict[str, Any] = client.api.inspect_container(name)
    except NotFound:
        return None
    config, state = answer["Config"], answer["State"]
    return ContainerRecord(
        id=answer["Id"],
        name=answer["Name"].removeprefix("/"),
        labels=config.get("Labels") or {},
        state=state["Status"],
        pid=int(state.get("Pid") or 0),
        user=config.get("User") or "",
        image=answer["Image"],
        exit_code=int(state.get("ExitCode") or 0),
        mounts=_mounts(answer.get("Mounts") or ()),
    )


def _mounts(answer: Sequence[Mapping[str, Any]]) -> tuple[Mount, ...]:
    """Outer before inner ones. The engine returns them in no order."""
    binds = (mount for mount in answer if mount["Type"] == "bind")
    found = (Mount(mount["Source"], mount["Destination"], bool(mount["RW"])) for mount in binds)
    return tuple(sorted(found, key=lambda mount: (mount.target.count("/"), mount.target)))


def image_id(client: "DockerClient", image: str) -> str | None:
    """None when the engine does not have the image."""
    from docker.errors import ImageNotFound

    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        return None


def create(client: "DockerClient", spec: ContainerSpec) -> str:
    """Make the container and return its id; it does not run yet. Raises APIError."""
    host_config = client.api.create_host_config(**spec.host_config)
    made = client.api.create_container(
        name=spec.name, labels=dict(spec.labels), host_config=host_config, **spec.options
    )
    return str(made["Id"])


def remove(client: "DockerClient", container: str) -> None:
    """Kill and remove a container and its anonymous volumes. Idempotent."""
    from docker.errors import APIError, NotFound

    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # another request is removing it
            raise


def start(client: "DockerClient", container: str) -> ContainerRecord:
    """Start or continue a container. Raises APIError, and EngineError when it was removed meanwhile."""
    record = inspect(client, container)
    if record is not None and record.state == "paused":
        client.api.unpause(container)
    else:
        client.api.start(container)
    if (record := inspect(client, container)) is None:
        raise EngineError(f"container {container[:12]} was removed while it started", status=404)
    return record


def stop(client: "DockerClient", container: str) -> None:
    """Idempotent. A paused container is continued first, because a paused process handles no signal."""
    from docker.errors import APIError, NotFound

    try:
        record = inspect(client, container)
        if record is not None and record.state == "paused":
            client.api.unpause(container)
        client.api.stop(container, timeout=STOP_S)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 304:  # it does not run
            raise


def ensure_network(client: "DockerClient", name: str, instance: str) -> str | None:
    """Make the network of an instance, without traffic between its containers.

    Returns the id of a network with this name that the instance did not make, else None.
    """
    from docker.errors import NotFound

    try:
        found = client.api.inspect_network(name)
    except NotFound:
        client.api.create_network(
            name,
            driver="bridge",
            check_duplicate=True,
            options={"com.docker.network.bridge.enable_icc": "false"},
            labels={"app": "sm", "type": "network", "instance": instance},
        )
        return None
    labels = found.get("Labels") or {}
    return None if labels.get("instance") == instance else str(found["Id"])


def remove_network(client: "DockerClient", name: str, instance: str) -> None:
    """Remove the network of the instance if no container uses it. Idempotent."""
    from docker.errors import APIError, NotFound

    try:
        if (client.api.inspect_network(name).get("Labels") or {}).get("instance") == instance:
            client.api.remove_network(name)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 403:  # a container is attached
            raise
