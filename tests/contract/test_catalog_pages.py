"""The catalog's lists are lists like the others: limit, cursor, next_cursor and a Link header."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient


@pytest.mark.parametrize("path", ["/v1/devices", "/v1/models"])
def test_pages_add_up_to_the_whole(client: TestClient, path: str) -> None:
    """Without a limit all of it; with one, page by page, the same names in the same order."""
    whole = client.get(path).json()
    assert whole["next_cursor"] is None
    names = [item["name"] for item in whole["items"]]
    found: list[str] = []
    following: str | None = f"{path}?limit=7"
    while following:
        response = client.get(following)
        page = response.json()
        assert len(page["items"]) <= 7
        found += [item["name"] for item in page["items"]]
        following = response.headers["link"].split(">")[0].lstrip("<") if page["next_cursor"] else None
    assert found == names


@pytest.mark.parametrize("path", ["/v1/devices", "/v1/models"])
@pytest.mark.parametrize("query", ["limit=0", "limit=201", "cursor=zzz", "cursor=AAAA", "bogus=1"])
def test_bad_paging_is_refused(client: TestClient, path: str, query: str) -> None:
    """A bad cursor is 422, here as elsewhere."""
    assert client.get(f"{path}?{query}").status_code == 422
