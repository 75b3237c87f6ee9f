"""The source of `sm top`: events that are read before the event loop runs."""

from pathlib import Path

import pytest

from sm.cli.tui.source import ThreadedSource
from sm.client.http import Client
from tests.cli.peer import Peer, chunked


@pytest.mark.parametrize("query", [{}, {"archived": "1"}])
async def test_events_of_another_query_come_from_a_stream_of_their_own_when_some_are_read_ahead(
    tmp_path: Path, query: dict[str, str]
) -> None:
    with Peer(str(tmp_path / "sm.sock")) as peer:
        peer.script("GET /v1/live", chunked(b'id: 1\ndata: {"row": 1}\n\n', b'id: 2\ndata: {"row": 2}\n\n'))
        source = ThreadedSource(Client(peer.path))
        source.read_ahead("/v1/live", {})
        peer.wait_received(1)
        events = source.events("/v1/live", query)
        assert [await anext(events), await anext(events)] == [{"row": 1}, {"row": 2}]
        await events.aclose()
        assert [received.query for received in peer.received] == ([""] if not query else ["", "archived=1"])
