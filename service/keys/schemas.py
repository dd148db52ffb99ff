"""Bodies of the key endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from service.kit.documents import RequestModel
from service.kit.security import Scope

from .repository import DURATION

Duration = Annotated[str, Field(pattern=DURATION, examples=["90d"])]


class KeyRequest(RequestModel):
    """A key to be made, for the caller's own team."""

    scopes: Annotated[list[Scope], Field(min_length=1, max_length=20)] = Field(description="What it allows; `admin` includes the rest.")
    expires_in: Duration | None = Field(default=None, description="Hours, days or weeks until it stops: `24h`, `90d`. Left out: never.")


class RotationRequest(RequestModel):
    """A key to be made in the place of another."""

    overlap: Duration = Field(default="24h", description="For how long the old key still works; `0h`: not at all.")
    expires_in: Duration | None = Field(
        default=None, description="Until the new key stops. Left out: as long as the old key was made for, or never if it had no end."
    )


class Key(BaseModel):
    """A key as it is listed; the key itself is not stored."""

    id: str
    prefix: str = Field(description="What the key begins with, to find it by.", examples=["rq_0123456789abcdef"])
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None = Field(description="From when on it does not work; null: it has no end.")
    last_used_at: datetime | None = Field(description="To the minute; null: it was not used, or within the last minute alone.")
    replaces: str | None = Field(description="The id of the key in whose place it was made.")
    revoked_at: datetime | None


class NewKey(Key):
    """A key that was just made."""

    key: str = Field(description="The key: send it as `Authorization: Bearer <key>`. It is shown this once and not stored.")


class KeyPage(BaseModel):
    """A page of keys, newest first."""

    items: list[Key]
    next_cursor: str | None
