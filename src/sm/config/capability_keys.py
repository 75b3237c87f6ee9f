"""Keys of config.yaml that capabilities add."""

from types import new_class

from sm.core.capability_parts import capability_parts
from sm.section import Section


def keys_of_capabilities(*names: str) -> type[Section]:
    """A section with the keys that the modules `settings` of capabilities have under the first of these names."""
    added = (
        next(filter(None, (getattr(part, name, None) for name in names)), None)
        for part in capability_parts("settings")
    )
    return new_class(f"Capabilities_{names[0]}", (*filter(None, added),) or (Section,))
