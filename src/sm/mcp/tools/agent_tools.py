"""The tool that lists the agent types to start."""

from statistics import median

from sm.core.text import folded
from sm.core.work_time import elapsed_s
from sm.mcp.results import LISTED_MAX, omitted
from sm.mcp.schemas import arguments, result
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.services import Monitor, Sessions, SpawnTypes

tools = ToolTable()

_FINISHED_MAX = 50
"""The newest finished sessions of a type whose cost and time count."""


@tools.tool(
    arguments(),
    result(agent_types="array", more="integer", duration_ms="number"),
    reads=True,
)
async def list_agent_types(
    call: ToolCall, *, sessions: Sessions, monitor: Monitor, types: SpawnTypes
) -> Result:
    """List the agent types that create_session starts, with cost and time of finished ones. Example: {}"""
    catalog = await types.catalog(call.caller, None, None, {})
    by_type = {
        kind.name: await sessions.newest_completed(call.caller, kind.name, _FINISHED_MAX)
        for kind in catalog.usable
    }
    measured = [s for finished in by_type.values() for s in finished]
    usages = await monitor.usages(measured)
    shown = []
    for kind in catalog.usable:
        finished = by_type[kind.name]
        costs = [cost for s in finished if (cost := usages[s.id].cost_usd) is not None]
        times = [elapsed_s(s, s.completed_at, s.worked_s) for s in finished if s.completed_at]
        shown.append(
            {
                "name": kind.name,
                "description": kind.agent.description and folded(kind.agent.description),
                "model": kind.agent.model,
                "finished": len(finished) or None,
                "cost_usd_p50": round(median(costs), 4) if costs else None,
                "seconds_p50": round(median(times)) if times else None,
            }
        )
    return {"agent_types": shown[:LISTED_MAX], "more": omitted(shown)}
