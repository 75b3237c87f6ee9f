"""Observes agents: their processes and terminals, their status, and their use of tokens and tools."""

from sm.monitor.cut_off import CutOffSessions
from sm.monitor.listeners import AgentListener
from sm.monitor.monitor import Monitor
from sm.monitor.observer import Observer
from sm.monitor.processes import Watcher
from sm.monitor.summary import Summary
from sm.monitor.usage import UsageMeter

__all__ = ["AgentListener", "CutOffSessions", "Monitor", "Observer", "Summary", "UsageMeter", "Watcher"]
