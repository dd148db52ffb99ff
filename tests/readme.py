"""The README's parts that are made, not written: its tables and the answers of its commands.

`python -m tests.readme` brings them up to date.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from service.app import create_app
from service.settings import Settings

README = Path(__file__).resolve().parents[1] / "README.md"
ADDRESS = "http://127.0.0.1:8000"


def settings_table() -> str:
    """Every setting with its default."""
    rows = ["| variable | default | what it does |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        value: Any = field.default
        default = getattr(value, "get_secret_value", lambda value=value: value)()
        rows.append(f"| `RUNQUOTE_{name.upper()}` | {'' if default is None else f'`{default}`'} | {field.description} |")
    return "\n".join(rows)


def endpoints_table() -> str:
    """Every endpoint of version 1 with the scopes of which it wants one."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(database_url=URL.create("sqlite", database=f"{folder}/x.db").render_as_string()))
        document = app.openapi()
        app.state.database.close()
    rows = ["| method and path | what it does | scope |", "|---|---|---|"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path.startswith("/v1"):
                scopes = [f"`{scope}`" for requirement in operation["security"] for scope in requirement["ApiKey"]]
                rows.append(f"| `{method.upper()} {path}` | {operation['summary']} | {', '.join(scopes) or 'any key'} |")
    return "\n".join(rows)


GENERATED: dict[str, Callable[[], str]] = {"endpoints": endpoints_table, "settings": settings_table}


def generated(text: str) -> str:
    """The README with its tables made anew."""

    def replace(match: re.Match[str]) -> str:
        maker = GENERATED.get(match[1])
        return match[0] if maker is None else f"<!-- generated: {match[1]} -->\n{maker()}\n<!-- /generated -->"

    return re.sub(r"<!-- generated: (\S+) -->\n.*?<!-- /generated -->", replace, text, flags=re.DOTALL)


def executed(text: str, address: str) -> str:
    """The README with the answers that a service at `address` gives to its commands."""

    def replace(match: re.Match[str]) -> str:
        command = match[2].removeprefix("$ ")
        done = subprocess.run(
            ["bash", "-c", command.replace(ADDRESS, address)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            raise RuntimeError(f"the README's command failed:\n{command}\n{done.stdout}{done.stderr}")
        return f"<!-- executed: {match[1]} -->\n```console\n{match[2]}\n{done.stdout}```\n<!-- /executed -->"

    # A command ends at the line that closes its last quote; what follows up to the fence is its answer.
    return re.sub(
        r"<!-- executed: (\S+) -->\n```console\n(\$ .*?')\n(?:(?![^\n]*').*?)?```\n<!-- /executed -->", replace, text, flags=re.DOTALL
    )


def main() -> None:
    """Bring the README up to date."""
    from tests.test_command_line import serving

    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (address, _, _):
        text = executed(generated(README.read_text()), address)
    README.write_text(text)


if __name__ == "__main__":
    os.chdir(README.parent)
    sys.exit(main())
