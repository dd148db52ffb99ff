"""Field types of the run spec: numbers as JSON gives them, bounded so that no formula can overflow."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

# No published run comes near these; beyond them sums of bytes would leave 64-bit integers.
MAX_COUNT = 10**18
MAX_WIDTH = 10**7
MAX_LAYERS = 10**4
MAX_DEVICES = 10**7


def integral(value: Any) -> Any:
    """An integral float (1e8) is an integer; text and truth values are not numbers."""
    kind = type(value)
    if kind is int:
        return value
    if kind is float:
        if value.is_integer():
            return int(value)
        raise PydanticCustomError("int_fraction", "must be an integer")
    raise PydanticCustomError("int_type", "must be an integer")


def real(value: Any) -> Any:
    """A JSON number; text and truth values are not numbers."""
    kind = type(value)
    if kind is float or kind is int:
        return value
    raise PydanticCustomError("float_type", "must be a number")


def one_or_list(value: Any) -> str:
    """Which member of a union of one value and a list of them is meant."""
    return "list" if isinstance(value, list) else "one"


Count = Annotated[int, Field(ge=0, le=MAX_COUNT), BeforeValidator(integral)]
Positive = Annotated[int, Field(ge=1, le=MAX_COUNT), BeforeValidator(integral)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH), BeforeValidator(integral)]
Layers = Annotated[int, Field(ge=1, le=MAX_LAYERS), BeforeValidator(integral)]
Devices = Annotated[int, Field(ge=1, le=MAX_DEVICES), BeforeValidator(integral)]
# A nanosecond to the age of the universe, a byte a century to all devices ever built: beyond them quotients and products overflow.
Amount = Annotated[float, Field(ge=0, le=1e24), BeforeValidator(real)]
PositiveAmount = Annotated[float, Field(ge=1e-9, le=1e24), BeforeValidator(real)]
BytesPerParameter = Annotated[float, Field(ge=0, le=64), BeforeValidator(real)]
Imbalance = Annotated[float, Field(ge=1, le=1e4), BeforeValidator(real)]
Dropout = Annotated[float, Field(ge=0, lt=1), BeforeValidator(real)]
Coverage = Annotated[float, Field(ge=0.01, le=0.9999), BeforeValidator(real)]
Repeats = Annotated[float, Field(ge=1e-6, le=1e6), BeforeValidator(real)]
Ratio = Annotated[float, Field(ge=0, le=1e6), BeforeValidator(real)]
Share = Annotated[float, Field(ge=0, le=100), BeforeValidator(real)]
Utilisation = Annotated[float, Field(ge=1e-9, le=4), BeforeValidator(real)]  # fp8 recipes exceed 1 of the bf16 peak
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=200, strict=True)]
Text = Annotated[str, Field(max_length=2000, strict=True)]


class Part(BaseModel):
    """A part of the run spec: unknown fields, NaN and infinities are refused."""

    model_config = ConfigDict(
        extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, protected_namespaces=(), use_attribute_docstrings=True
    )


def fault(kind: str, message: str) -> PydanticCustomError:
    """A refusal in the contract's words."""
    return PydanticCustomError(kind, message)
