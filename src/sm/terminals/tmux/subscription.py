"""Subscribes to the activity, the titles and the viewers of terminals."""

from collections.abc import Callable, Mapping

from sm.terminals.tmux.tmux_server import TmuxServer

_NOBODY: frozenset[str] = frozenset()


class Subscription:
    """One tmux subscription for all, made for the first listener. Each kind has one listener."""

    def __init__(self, server: TmuxServer) -> None:
        self._server = server
        self._activity: Mapping[str, int] = {}
        self._titles: Mapping[str, str] = {}
        self._viewers: Mapping[str, frozenset[str]] = {}
        self._subscribed = False
        self._on_activity: Callable[[Mapping[str, int]], None] = lambda changed: None
        self._on_titles: Callable[[Mapping[str, str]], None] = lambda changed: None
        self._on_viewers: Callable[[Mapping[str, frozenset[str]]], None] = lambda changed: None

    def on_activity(self, listener: Callable[[Mapping[str, int]], None]) -> None:
        self._on_activity = listener
        self._subscribe()

    def on_titles(self, listener: Callable[[Mapping[str, str]], None]) -> None:
        self._on_titles = listener
        self._subscribe()

    def on_viewers(self, listener: Callable[[Mapping[str, frozenset[str]]], None]) -> None:
        self._on_viewers = listener
        self._subscribe()

    def _subscribe(self) -> None:
        if self._subscribed:
            return
        self._subscribed = True
        # window_activity, because session_activity does not change while nobody is attached.
        fields = "#{@sm_session_id}=#{window_activity}=#{window_active_clients_list}=#{=1:pane_title}"
        pane = f"#{{?@sm_agent,{fields} ,}}"
        own = self._server.instance
        mine = f"#{{||:#{{==:#{{@sm_instance}},{own}}},#{{==:#{{@sm_hosts}},{own}}}}}"
        self._server.subscribe(f"#{{S:#{{?{mine},#{{W:#{{P:{pane}}}}},}}}}", self._changed)

    def _changed(self, value: str) -> None:
        activity: dict[str, int] = {}
        titles: dict[str, str] = {}
        viewers: dict[str, frozenset[str]] = {}
        for word in value.split():
            session_id, moment, clients, glyph = [*word.split("=", 3), "", "", ""][:4]
            if moment.isdigit():
                activity[session_id] = int(moment)
                titles[session_id] = glyph
                viewers[session_id] = frozenset(clients.split(",")) - {""}
        new_activity = {key: value for key, value in activity.items() if self._activity.get(key) != value}
        new_titles = {key: value for key, value in titles.items() if self._titles.get(key) != value}
        # A terminal that is gone has no viewers any more.
        all_viewers = {**dict.fromkeys(self._viewers, _NOBODY), **viewers}
        new_viewers = {
            key: value for key, value in all_viewers.items() if self._viewers.get(key, _NOBODY) != value
        }
        self._activity, self._titles, self._viewers = activity, titles, viewers
        if new_activity:
            self._on_activity(new_activity)
        if new_titles:
            self._on_titles(new_titles)
        if new_viewers:
            self._on_viewers(new_viewers)
