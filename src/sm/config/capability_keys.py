"""Keys of config.yaml that capabilities add."""

from types import new_class

from sm.core.capability_parts import capability_parts
from sm.section import Section


def keys_of_capabilities(name: str) -> type[Section]:
    """A section with the keys of those that the modules `settings` of capabilities have under that name."""
    added = (getattr(part, name, None) for part in capability_parts("settings"))
    return new_class(f"Capabilities_{name}", (*filter(None, added),) or (Section,))
