"""Hugging Face Transformers: modules as they stand in the library's modeling files, run eagerly by PyTorch autograd.

Sources: the modeling files of transformers 5.24 and PyTorch's saved-tensor hooks over them (tests/cases/oracle.jsonl):
RMSNorm makes a 32-bit copy of its input and keeps the 16-bit normalised value; SwiGLU keeps gate, its activation, up
and their product; ``NewGELUActivation`` is written out in five kept steps; Gemma normalises in 32 bits and keeps
1 + weight; T5 keeps both the 16-bit input and its 32-bit copy; softmax is 32-bit, cast back (GPT-2, T5: native).
"""

from __future__ import annotations

from .profile import ActivationRule, AttentionRule, BlockRule, LossRule, NormRule

BLOCKS = BlockRule(
    norms={
        "family:gemma": NormRule(
            input_copy=(4, 4, 4), normalized=(4, 4, 4), statistics=4, half_input_copy=4, half_normalized=4, trained_scale_copy=4
        ),
        "family:t5": NormRule(input_copy=(6, 4, 4), normalized=(2, 4, 4), statistics=4, half_input_copy=6, half_normalized=2),
        "rms": NormRule(input_copy=(4, 4, 4), normalized=(2, 4, 4), statistics=4, half_input_copy=4, half_normalized=2),
        "layer": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=4, half_normalized=0),
    },
    activations={
        "": ActivationRule(inner=(2, 2, 4)),
        "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True),
        "relu2": ActivationRule(inner=(2, 2, 4)),
        "gelu_new": ActivationRule(inner=(8, 14, 16)),
        "gelu_fast": ActivationRule(inner=(8, 14, 16)),
    },
    attention=AttentionRule(
        repeats_key_values=(False, False, True),
        score_bytes={"": (6, 6, 4), "gpt2": (2, 6, 4), "t5": (2, 6, 4)},
        second_output=(True, True, False),
    ),
    product_copies={"t5": (0, 2, 0)},
    router_copies={"deepseek": (4, 0, 0)},
)
LOSS = LossRule(saved=(4, 4, 4), forward_extra=(6, 6, 4), backward_extra=(8, 8, 8))
