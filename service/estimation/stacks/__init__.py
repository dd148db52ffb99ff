"""Software stacks as data: one record each, every coefficient with its source; ``profile`` has the fields and their meaning.

A name that callers give may stand for several records (``Stack.relatives``: Megatron-core, and Megatron under DeepSpeed's engine);
``stack_of`` tells which one a run means, ``STACKS`` has the one that the name means where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..run import Precision, Software
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


def stack_of(software: Software, precision: Precision) -> Stack:
    """The record of a run's stack: of stacks that share a name, the one that the width of the gradients tells."""
    named = STACKS[software.stack]
    return named.relatives.get(precision.gradient_bytes, named)
