"""Subscribes to the activity and the titles of terminals."""

from collections.abc import Callable, Mapping

from sm.terminals.tmux.server import TmuxServer


class Subscription:
    """One for both, made when somebody listens first; each has one listener. See `TmuxServer.subscribe`."""

    def __init__(self, server: TmuxServer) -> None:
        self._server = server
        self._activity: Mapping[str, int] = {}
        self._titles: Mapping[str, str] = {}
        self._subscribing = False
        self._told_activity: Callable[[Mapping[str, int]], None] = lambda moved: None
        self._told_titles: Callable[[Mapping[str, str]], None] = lambda changed: None

    def on_activity(self, told: Callable[[Mapping[str, int]], None]) -> None:
        self._told_activity = told
        self._subscribe()

    def on_titles(self, told: Callable[[Mapping[str, str]], None]) -> None:
        self._told_titles = told
        self._subscribe()

    def _subscribe(self) -> None:
        if self._subscribing:
            return
        self._subscribing = True
        # window_activity, because session_activity does not move while nobody is attached.
        pane = "#{?@sm_agent,#{@sm_session_id}=#{window_activity}=#{=1:pane_title} ,}"
        own = self._server.instance
        mine = f"#{{||:#{{==:#{{@sm_instance}},{own}}},#{{==:#{{@sm_hosts}},{own}}}}}"
        self._server.subscribe(f"#{{S:#{{?{mine},#{{W:#{{P:{pane}}}}},}}}}", self._subscribed)

    def _subscribed(self, value: str) -> None:
        activity: dict[str, int] = {}
        titles: dict[str, str] = {}
        for word in value.split():
            session_id, _, rest = word.partition("=")
            moment, _, glyph = rest.partition("=")
            if moment.isdigit():
                activity[session_id] = int(moment)
                titles[session_id] = glyph
        moved = {key: each for key, each in activity.items() if self._activity.get(key) != each}
        changed = {key: each for key, each in titles.items() if self._titles.get(key) != each}
        self._activity, self._titles = activity, titles
        if moved:
            self._told_activity(moved)
        if changed:
            self._told_titles(changed)
