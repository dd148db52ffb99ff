"""Software stacks as data: one table each, every coefficient with its source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .deepspeed import DEEPSPEED
from .fsdp_native import FSDP_NATIVE
from .hugging_face import HUGGING_FACE
from .llm_foundry import LLM_FOUNDRY
from .megatron import MEGATRON
from .profile import Stack

STACKS: Mapping[str, Stack] = MappingProxyType(
    {
        "hf_transformers": HUGGING_FACE,
        "fsdp_native": FSDP_NATIVE,
        "deepspeed": DEEPSPEED,
        "megatron": MEGATRON,
        "llm_foundry": LLM_FOUNDRY,
    }
)
