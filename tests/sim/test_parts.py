"""Each part of a fleet keeps its promises on one seed that has it, and a seed without a part does not play it."""

import pytest

from tests.sim.fleet import Act, Fault, script
from tests.sim.parts import Part, parts_of
from tests.sim.storm import play

_WORD = {
    Part.VIEWS: "FAULT a view",
    Part.PHONE: "the owner",
    Part.TOOLS: "used the tool",
    Part.SANDBOXES: "'workspace': 'shop'",
    Part.WEBHOOK: "the receiver of webhooks",
}


@pytest.mark.parametrize("part", Part)
def test_fleet_with_a_part_keeps_the_promises(part: Part) -> None:
    seed = next(seed for seed in range(1, 100) if parts_of(seed) == {part})
    storm = play(seed, script(seed))
    assert storm.broken == [], "\n".join(storm.trace)
    assert any(_WORD[part] in line for line in storm.trace)


def test_script_has_the_steps_of_its_parts_only() -> None:
    seed = next(seed for seed in range(1, 100) if not parts_of(seed))
    of_parts = {
        Act.WRITE,
        Act.PRESS,
        Act.TOOL,
        Act.BOX,
        Fault.CUT,
        Fault.TELEGRAM,
        Fault.PUMP,
        Fault.ENGINE,
        Fault.RECEIVER,
    }
    assert not of_parts & {entry.act for entry in script(seed)}
