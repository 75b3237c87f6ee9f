"""Models of route inputs read any JSON or query, or refuse the input with a UsageError."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import MultiDict

from sm.api.body import Body
from sm.api.fields import Query
from sm.api.routes import ROUTES
from sm.errors import UsageError

BODIES = {r.body for routes in ROUTES.values() for r in routes if r.body is not None}
QUERIES = {r.query for routes in ROUTES.values() for r in routes if r.query is not None}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=8),
)
EXAMPLES = settings(max_examples=settings().max_examples // 2, derandomize=True, database=None)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=3), SCALARS, max_size=3)
)


@pytest.mark.parametrize("model", sorted(BODIES, key=str), ids=str)
def test_body_of_any_json_is_read_or_refused(model: type[Body]) -> None:
    @EXAMPLES
    @given(st.dictionaries(st.sampled_from([*model.model_fields, "unknown"]), VALUES))
    def read(value: dict[str, Any]) -> None:
        with suppress(UsageError):
            model.of(value)

    read()


@pytest.mark.parametrize("model", sorted(QUERIES, key=str), ids=str)
def test_query_of_any_text_is_read_or_refused(model: type[Query]) -> None:
    texts = st.one_of(st.text(max_size=8), st.integers(-(10**20), 10**20).map(str))

    @EXAMPLES
    @given(st.lists(st.tuples(st.sampled_from([*model.model_fields, "unknown"]), texts)))
    def read(value: list[tuple[str, str]]) -> None:
        with suppress(UsageError):
            model.of(cast(Any, SimpleNamespace(query=MultiDict(value))))

    read()
