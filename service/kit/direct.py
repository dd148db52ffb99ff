"""Routes that carry the load: what an endpoint asks for is handed to it by plain calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.params import Security
from fastapi.responses import Response
from fastapi.routing import APIRoute

from . import documents, security

_TAKEN = {"request", "body", "caller", "key"}


class DirectRoute(APIRoute):
    """A route whose endpoint is `async def (request, body: JsonBody, [key: IdempotencyKey], caller: Caller = allow(...))`.

    FastAPI resolves dependencies one by one, each behind exit stacks, which takes a quarter of the time of a quote. A request without
    query and key is answered without that, by the same functions in the same order; any other as FastAPI would, which also documents it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of one request."""
        resolved = super().get_route_handler()
        endpoint = self.endpoint
        parameters = inspect.signature(endpoint).parameters
        allowed = parameters["caller"].default if "caller" in parameters else None
        if not (parameters.keys() <= _TAKEN and {"request", "body"} <= parameters.keys() and isinstance(allowed, Security)):
            raise TypeError(f"{endpoint.__name__} asks for more than a direct route gives")
        scopes = tuple(allowed.scopes or ())

        async def handle(request: Request) -> Response:
            if request.scope["query_string"] or "idempotency-key" in request.headers:
                return await resolved(request)
            body = await documents.read_body(request)
            caller = await security.authorize(request, scopes)
            response: Response = await endpoint(request=request, body=body, caller=caller)
            return response

        return handle
