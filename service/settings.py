"""Settings: one object, built once by `create_app` or the command line; each is an environment variable `RUNQUOTE_<NAME>`."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL, make_url


class Settings(BaseSettings):
    """What a deployment decides."""

    model_config = SettingsConfigDict(env_prefix="RUNQUOTE_", extra="ignore", frozen=True)

    database_url: SecretStr = Field(
        default=SecretStr("sqlite:///runquote.db"),
        description="SQLAlchemy URL of the database; SQLite or PostgreSQL. The default is a file in the working directory.",
    )
    auth: Literal["off", "required"] | None = Field(
        default=None,
        description="`off` or `required`; left out: `off` on SQLite bound to loopback, `required` otherwise.",
    )
    host: str = Field(default="127.0.0.1", description="Address to bind; `serve --host` sets it.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to bind; `serve --port` sets it.")
    workers: int = Field(default=1, ge=1, le=64, description="Server processes; more than one needs PostgreSQL.")
    database_connections: int = Field(
        default=20, ge=2, le=200, description="Connections of one worker at most; also how many requests it works on at a time."
    )
    database_timeout_seconds: float = Field(
        default=10, gt=0, le=600, description="How long a request waits for a connection, a lock or a statement before it answers 503."
    )
    shared_learning: bool = Field(
        default=False,
        description="Whether calibrations may learn from other teams' runs too, of teams that agreed (`teams share`), where five or more "
        "have thirty runs or more on a device and stack. Off: a team learns from its own runs and from public measurements.",
    )
    search_processes: int = Field(default=1, ge=1, le=64, description="Processes of one worker in which plans are searched.")
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024, description="A larger request body is refused with 413.")
    body_seconds: float = Field(default=30, gt=0, le=3600, description="A request body that takes longer to come is refused with 408.")
    key_requests_per_second: float = Field(
        default=50, gt=0, description="Requests of one key that each worker answers a second; twice as many may come at once; 429 beyond."
    )
    team_requests_per_second: float = Field(default=100, gt=0, description="The same for all keys of a team together.")
    team_requests_at_once: int = Field(default=8, ge=1, description="Requests of one team that each worker works on at a time; 429 beyond.")
    heavy_requests_at_once: int = Field(
        default=1,  # they compute under Python's lock: two at a time end no sooner, and make light requests wait for both
        ge=1,
        description="Batches, plans, imports, backtests and calibrations that each worker works on at a time; others wait.",
    )
    cors_origins: str = Field(
        default="", description="Origins whose pages may call the service from a browser, separated by spaces; none unless named."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severe level that is logged.")
    shutdown_seconds: int = Field(default=30, ge=1, description="How long running requests may take after a stop signal.")

    @property
    def url(self) -> URL:
        """The database URL, parsed; a bare `postgres://` is taken for PostgreSQL."""
        text = self.database_url.get_secret_value()
        if text.startswith("postgres://"):
            text = "postgresql://" + text.removeprefix("postgres://")
        return make_url(text)

    @property
    def auth_required(self) -> bool:
        """Whether a caller needs a key."""
        if self.auth is not None:
            return self.auth == "required"
        return not (self.url.get_backend_name() == "sqlite" and self.loopback)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return _is_loopback(self.host)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
