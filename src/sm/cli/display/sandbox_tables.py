"""Formats the answers of the routes of sandboxes. Pure."""

from collections.abc import Callable, Sequence

from sm.core.lines import JsonObject, line, plural
from sm.core.programs import engine_of

_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_BINARY = (("GiB", 1 << 30), ("MiB", 1 << 20))
_STEP_MAX = 120


def size(number: int) -> str:
    """Disk space, as `1.2 GB`."""
    for unit, factor in _UNITS:
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} bytes"


def _memory(number: int) -> str:
    unit, factor = next(((u, f) for u, f in _BINARY if number >= f), _BINARY[-1])
    return f"{number / factor:.1f} {unit}" if unit == "GiB" else f"{number // factor} {unit}"


def step_line(text: str) -> str:
    return text if len(text) <= _STEP_MAX else text[: _STEP_MAX - 3] + "..."


def build_summary(image: JsonObject) -> str:
    agents = ", ".join(image["agents"] or ()) or "no agents"
    return f"Built {line(image['name'])} with {line(agents)}, {size(image['size_bytes'])}"


def done_line(verb: str, done: JsonObject) -> str:
    return f"{verb} the container {_place(done['container'])}"


def _place(name: str | None) -> str:
    return "for sessions without a workspace" if name in (None, "default") else f"of workspace {line(name)}"


def status_lines(status: JsonObject) -> list[str]:
    lines = [*_engine(status["engine"]), *_image(status)]
    for container in status["containers"]:
        lines += _container(container)
    if not status["containers"] and status["engine"]["available"]:
        lines.append("Container: none; the first sandboxed session makes one")
    if others := status["other_instances"]:
        lines.append(f"Others:    {plural(others, 'container')} of other instances of sm")
    return lines


def _engine(engine: JsonObject) -> list[str]:
    if not engine["available"]:
        hint = f"\n           hint: {line(engine['hint'], 2000)}" if engine["hint"] else ""
        return [f"Engine:    not available: {line(engine['problem'], 2000)}{hint}"]
    facts = [
        f"{engine_of(engine['url']).title} {line(engine['version'])} at {line(engine['url'])}",
        f"cgroup v{engine['cgroup_version']}",
        line(engine["storage_driver"]),
        "" if engine["seccomp"] else "without seccomp",
        "live-restore" if engine["live_restore"] else "",
        "" if engine["data_free_bytes"] is None else f"{size(engine['data_free_bytes'])} free",
    ]
    return ["Engine:    " + ", ".join(filter(None, facts))]


def _image(status: JsonObject) -> list[str]:
    image = status["image"]
    if image is None:
        missing = f"Image:     {line(status['image_name'])} does not exist: sm sandbox build"
        return [missing] if status["engine"]["available"] else []
    agents = "" if image["agents"] is None else ", ".join(image["agents"]) or "no agents"
    facts = [line(image["name"]), line(agents), size(image["size_bytes"])]
    return [
        "Image:     " + ", ".join(filter(None, facts)),
        *(f"           {line(w, 2000)}" for w in image["warnings"]),
    ]


def _container(container: JsonObject) -> list[str]:
    facts = [container["state"], plural(len(container["sessions"]), "session")]
    if usage := container["usage"]:
        facts.append(f"memory {_of(usage['memory_bytes'], usage['memory_limit_bytes'], _memory)}")
        facts.append(f"pids {_of(usage['pids'], usage['pids_limit'], str)}")
    facts.append(f"home {size(container['home_bytes'])}")
    name = container["workspace"] or "default"
    lines = [f"Container: {line(name)} ({line(container['name'])}): {', '.join(facts)}"]
    if not container["current"]:
        end = "end its sessions, then: " if container["sessions"] else "start a session, or: "
        lines.append(
            "           made with another configuration or image; to apply the current one, "
            f"{end}sm sandbox rm {line(name)}"
        )
    if container["last_oom"]:
        lines.append(f"           out of memory at {line(container['last_oom'])}")
    if container["problem"]:
        lines.append(f"           {line(container['problem'], 2000)}")
    return lines


def _of(used: int | None, limit: int | None, text: Callable[[int], str]) -> str:
    """The use of its limit, as `1.2 GiB of 4.0 GiB`."""
    shown = "unknown" if used is None else text(used)
    return shown if limit is None else f"{shown} of {text(limit)}"


def unused_lines(unused: Sequence[JsonObject]) -> list[str]:
    """A line for each thing. The size of a container is unknown: most of it belongs to the image."""
    return [
        f"{thing['kind']} {_short(thing)}"
        + ("" if thing["kind"] == "container" else f", {size(thing['size_bytes'])}")
        for thing in unused
    ]


def _short(thing: JsonObject) -> str:
    name = line(thing["name"])
    return name.removeprefix("sha256:")[:12] if thing["kind"] == "image" else name


def unused_total(unused: Sequence[JsonObject]) -> str:
    """The number of things of each kind and their size, as `1 container, 2 homes, 3.4 MB`."""
    kinds = [thing["kind"] for thing in unused]
    parts = [plural(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    if total := sum(thing["size_bytes"] for thing in unused):
        least = "at least " if "image" in kinds else ""
        parts.append(least + size(total))
    return ", ".join(parts)
