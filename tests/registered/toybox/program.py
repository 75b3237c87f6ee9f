"""The facts of `toybox`."""

from sm.core.programs import EngineProgram

PROGRAM = EngineProgram(
    name="toybox",
    title="Toybox",
    url_pattern="toybox:[a-z]+",
    variable_prefix="TOYBOX_",
    host_name="outside.toybox",
    cgroup_prefix="toybox-",
    sockets=("toybox.sock",),
    data=("/var/lib/toybox",),
    home_secrets=(".toybox",),
)
