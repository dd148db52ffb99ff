"""Typed access to a Hugging Face config: aliases, class defaults, and an error that points at the field."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib import resources
from typing import Any, cast

DEFAULTS_SOURCE = "transformers 5.24.0"
_LARGEST_DIMENSION = 2**31 - 1
_MOST_LAYERS = 4096
_MISSING = object()


class ConfigError(ValueError):
    """A config that cannot be read; ``pointer`` is a JSON pointer within the config."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer or '/'}: {detail}")
        self.pointer = pointer
        self.detail = detail


class UnknownModelType(ConfigError):
    """A model type that no reader knows and whose generic fields do not suffice."""


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, dict[str, Any]]]:
    """Class defaults and attribute aliases of each model type (see ``DEFAULTS_SOURCE``)."""
    text = resources.files(__package__).joinpath("defaults.json").read_text("utf-8")
    return cast("dict[str, dict[str, dict[str, Any]]]", json.loads(text)["model_types"])


class Fields:
    """One config (or one object nested in it) read field by field; remembers what it had to assume."""

    def __init__(self, config: dict[str, Any], model_type: str, pointer: str = "", *, defaults: dict[str, Any] | None = None) -> None:
        table = _tables().get(model_type, {"defaults": {}, "aliases": {}})
        self.config = config
        self.model_type = model_type
        self.pointer = pointer
        self._defaults = table["defaults"] if defaults is None else defaults
        self._aliases: dict[str, tuple[str, ...]] = {}
        for name, own in table["aliases"].items():
            self._aliases[name] = (*self._aliases.get(name, ()), own)
            self._aliases[own] = (*self._aliases.get(own, ()), name)
        self._from_defaults: dict[str, Any] = {}
        self._assumed: list[str] = []

    # -- what was assumed ------------------------------------------------------------------------------------------
    def assume(self, text: str) -> None:
        """Note something that was taken for granted."""
        if text not in self._assumed:
            self._assumed.append(text)

    def assumptions(self) -> tuple[str, ...]:
        """Everything that was assumed, class defaults in one sentence."""
        notes = list(self._assumed)
        if self._from_defaults:
            listed = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self._from_defaults.items())
            notes.append(f"not in the config, taken from the {self.model_type} defaults of {DEFAULTS_SOURCE}: {listed}")
        return tuple(notes)

    # -- raw access ------------------------------------------------------------------------------------------------
    def _find(self, name: str) -> tuple[str, Any]:
        for key in (name, *self._aliases.get(name, ())):
            if key in self.config:
                return key, self.config[key]
        return name, _MISSING

    def has(self, name: str) -> bool:
        """Whether the config gives the field a value (null is none)."""
        return self._find(name)[1] not in (_MISSING, None)

    def given(self, name: str) -> bool:
        """Whether the config has the field, null included."""
        return self._find(name)[1] is not _MISSING

    def error(self, name: str, detail: str) -> ConfigError:
        """An error that points at a field."""
        key, _ = self._find(name)
        return ConfigError(f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}", detail)

    def _default(self, name: str) -> Any:
        for key in (name, *self._aliases.get(name, ())):
            if self._defaults.get(key) is not None:
                self._from_defaults[key] = self._defaults[key]
                return self._defaults[key]
        return None

    # -- typed access ----------------------------------------------------------------------------------------------
    def optional_integer(self, name: str, *, least: int = 0) -> int | None:
        """An integer, None where the config says null or neither it nor the class has a value."""
        _, value = self._find(name)
        if value is _MISSING:
            value = self._default(name)
        if value is None:
            return None
        return self._as_integer(name, value, least)

    def integer(self, name: str, derived: int | None = None, *, least: int = 1) -> int:
        """An integer; null or absent without a class default means ``derived``, and an error without that."""
        value = self.optional_integer(name, least=least)
        if value is None:
            value = derived
        if value is None:
            raise self.error(name, "is required to know the model's shape")
        return value

    def layers(self, name: str = "num_hidden_layers", derived: int | None = None) -> int:
        """A number of blocks."""
        count = self.integer(name, derived)
        if count > _MOST_LAYERS:
            raise self.error(name, f"is more than {_MOST_LAYERS} layers")
        return count

    def _as_integer(self, name: str, value: Any, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
            raise self.error(name, "must be an integer")
        if not least <= value <= _LARGEST_DIMENSION:
            raise self.error(name, f"must be between {least} and {_LARGEST_DIMENSION}")
        return int(value)

    def number(self, name: str, derived: float = 0.0) -> float:
        """A finite number."""
        _, value = self._find(name)
        if value in (_MISSING, None):
            value = self._default(name)
        if value is None:
            return derived
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(name, "must be a number")
        return float(value)

    def flag(self, name: str, derived: bool = False) -> bool:
        """A boolean; null or absent without a class default means ``derived``."""
        _, value = self._find(name)
        if value in (_MISSING, None):
            value = self._default(name)
        if value is None:
            return derived
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def drops(self, *names: str) -> bool:
        """Whether the config itself asks for dropout (the class defaults' is taken as switched off): its mask is saved."""
        return any(self.has(name) and self.number(name) > 0 for name in names)

    def text(self, name: str, derived: str = "") -> str:
        """A string."""
        _, value = self._find(name)
        if value in (_MISSING, None):
            value = self._default(name)
        if value is None:
            return derived
        if not isinstance(value, str):
            raise self.error(name, "must be a string")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, None where there is none."""
        _, value = self._find(name)
        if value in (_MISSING, None):
            value = self._default(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(name, "must be a list")
        return value

    def integers(self, name: str) -> list[int] | None:
        """A list of integers, None where there is none."""
        values = self.items(name)
        return None if values is None else [self._as_integer(name, value, 0) for value in values]

    def labels(self) -> int:
        """Classes of a head: the config's labels, else transformers' two."""
        for name in ("id2label", "label2id"):
            if self.has(name):
                labels = self.config[name]
                if not isinstance(labels, dict) or not labels:
                    raise self.error(name, "must be an object with at least one label")
                return len(labels)
        if self.has("num_labels"):
            return self.integer("num_labels")
        self.assume("two classes, the default of transformers, since the config names no labels")
        return 2

    def nested(self, name: str, defaults: dict[str, Any] | None = None) -> Fields:
        """An object inside the config (an empty one where there is none)."""
        key, value = self._find(name)
        if value in (_MISSING, None):
            value = {}
        if not isinstance(value, dict):
            raise self.error(name, "must be an object")
        inner = Fields(value, self.model_type, f"{self.pointer}/{key}", defaults=defaults or {})
        inner._from_defaults = self._from_defaults
        inner._assumed = self._assumed
        return inner
