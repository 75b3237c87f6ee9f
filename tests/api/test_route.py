"""The routes of the API as a whole."""

from sm.api.routes import ROUTES


def test_routes_have_unique_paths_and_ids_and_a_summary() -> None:
    routes = [route for routes in ROUTES.values() for route in routes]
    assert len({(route.method, route.path) for route in routes}) == len(routes)
    assert len({route.id for route in routes}) == len(routes)
    assert all(summary for summary, _ in (route.summary_and_description for route in routes))
