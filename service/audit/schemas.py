"""Bodies of the audit endpoint."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class AuditEvent(BaseModel):
    """An act."""

    id: str
    created_at: datetime
    action: str = Field(description="What was done.", examples=["quote.created"])
    subject: str = Field(description="To what: the id of a quote, project, entry or key; of a calibration its version.")
    via: str = Field(description="`key`, `open` (of a service that asks for no key) or `command_line`.")
    key_id: str | None = Field(description="With which key; null where none was asked for.")


class AuditPage(BaseModel):
    """A page of acts, newest first."""

    items: list[AuditEvent]
    next_cursor: str | None
