"""The page of documentation: Swagger's, and a plain list of the operations that stands there until its scripts are loaded.

The scripts come from a public server. Where it cannot be reached (a cluster without a way out) the list stays, with the document.
"""

from __future__ import annotations

from html import escape

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from . import api

_PLACE = '<div id="swagger-ui">'
_STYLE = 'rel="stylesheet"'


def add(app: FastAPI, path: str = "/docs") -> None:
    """Serve the page."""

    async def documentation(request: Request) -> HTMLResponse:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        return HTMLResponse(page(app, root))

    app.add_route(path, documentation, include_in_schema=False)


def page(app: FastAPI, root: str = "") -> str:
    """The page's HTML; ``root`` is the path that a proxy put before the service's."""
    document = f"{root}{app.openapi_url}"
    html = bytes(get_swagger_ui_html(openapi_url=document, title=app.title).body).decode()
    # A style sheet that does not come must not hold up the list.
    html = html.replace(_STYLE, f'{_STYLE} media="print" onload="this.media=\'all\'"')
    return html.replace(_PLACE, _PLACE + _operations(app, root, document))


def _operations(app: FastAPI, root: str, document: str) -> str:
    rows = "".join(
        f"<tr><td><code>{method.upper()} {escape(root + path)}</code></td><td>{escape(operation.get('summary', ''))}</td></tr>"
        for path, operations in api.describe(app)["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f"<h1>{escape(app.title)}</h1><p>The operations. What they take and give, with examples, is in "
        f'<a href="{escape(document)}">{escape(document)}</a>; this page shows it once its scripts are loaded, '
        f"which takes a way to the internet.</p><table>{rows}</table>"
    )
