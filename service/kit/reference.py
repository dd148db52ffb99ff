"""The page of documentation: Swagger's, and a plain list of the operations that stands there until its scripts are loaded.

The scripts come from this service, out of a package of the lock: nothing is loaded from elsewhere, and the page's policy says so.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
from functools import cache
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from . import api

_PLACE = '<div id="swagger-ui">'
_ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon.png": "image/png"}
_KEPT = "public, max-age=86400"


def add(app: FastAPI, path: str = "/docs") -> None:
    """Serve the page."""

    async def documentation(request: Request) -> HTMLResponse:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        html = page(app, root, path)
        return HTMLResponse(html, headers={"Content-Security-Policy": _policy(html)})

    def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            raise HTTPException(404)
        return Response(_asset(name), media_type=_ASSETS[name], headers={"Cache-Control": _KEPT})

    app.add_route(path, documentation, include_in_schema=False)
    app.add_route(path + "/{name}", asset, include_in_schema=False)


@cache
def _asset(name: str) -> bytes:
    """A file of Swagger's page. The package is not imported: only its files are used."""
    package = importlib.util.find_spec("fastapi_offline")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("fastapi-offline, which brings the files of the documentation's page")
    return (Path(package.origin).parent / "static" / name).read_bytes()


def _policy(html: str) -> str:
    """The page's own scripts by their hashes, what this service serves, and nothing else."""
    inline = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in inline)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "  # Swagger sets styles by script
        "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def page(app: FastAPI, root: str = "", path: str = "/docs") -> str:
    """The page's HTML; ``root`` is the path that a proxy put before the service's."""
    document = f"{root}{app.openapi_url}"
    at = f"{root}{path}"
    answer = get_swagger_ui_html(
        openapi_url=document,
        title=app.title,
        swagger_js_url=f"{at}/swagger-ui-bundle.js",
        swagger_css_url=f"{at}/swagger-ui.css",
        swagger_favicon_url=f"{at}/favicon.png",
    )
    html = bytes(answer.body).decode()
    return html.replace(_PLACE, _PLACE + _operations(app, root, document))


def _operations(app: FastAPI, root: str, document: str) -> str:
    rows = "".join(
        f"<tr><td><code>{method.upper()} {escape(root + path)}</code></td><td>{escape(operation.get('summary', ''))}</td></tr>"
        for path, operations in api.describe(app)["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f"<h1>{escape(app.title)}</h1><p>The operations. What they take and give, with examples, is in "
        f'<a href="{escape(document)}">{escape(document)}</a>; this page shows it once its scripts are loaded.'
        f"</p><table>{rows}</table>"
    )
