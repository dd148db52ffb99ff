"""What had to be assumed of a run's memory, said beside its peak; remembered like the trained model."""

from __future__ import annotations

from ...architecture import Architecture
from ...by_identity import ByIdentity
from ...stacks import STACKS, stack_of
from ...stacks.profile import Stack
from ..blocks.trained_model import REFERENCED, SAMPLED, Essence


@ByIdentity
def notes(model: Architecture, run: Essence) -> tuple[str, ...]:
    """All of them, in the order in which they are said."""
    stack = stack_of(run.software, run.precision)
    return (*_relative(run, stack), *_notes(run, stack), *_dropped(model, run))


def _notes(run: Essence, stack: Stack) -> tuple[str, ...]:
    notes = []
    if run.longest_decides:
        notes.append(f"the longest sequence decides: {run.length} tokens")
    if run.method.objective in REFERENCED:
        if run.method.adapters:
            notes.append("the frozen base is the reference model")
        elif run.post_training.reference == "model":
            notes.append("the reference model is held in 16 bits, sharded like the weights")
    if run.method.objective in SAMPLED:
        notes += _sampled_notes(run)
    if run.precision.recipe in ("fp8_mixed", "nvfp4_mixed"):
        notes.append("narrow products read 16-bit weights and activations, which are what is held (torchtitan's float8 runs)")
    if run.method.lora is not None and stack.adapter_bytes not in (None, run.method.lora.adapter_bytes):
        notes.append(f"the engine holds adapters in {stack.adapter_bytes:g} bytes a parameter, whatever adapter_bytes says")
    if run.method.objective == "reward_model":
        notes.append("a scalar head: one output a token instead of the vocabulary")
    return tuple(notes)


def _relative(run: Essence, stack: Stack) -> tuple[str, ...]:
    """Which of the stacks that share a name it was taken for, and by what."""
    if stack is STACKS[run.software.stack]:
        return ()
    return (f"taken for {stack.title}, whose gradients have {run.precision.gradient_bytes:g} bytes: precision.gradient_bytes tells",)


def _dropped(model: Architecture, run: Essence) -> tuple[str, ...]:
    if not model.embedding_dropouts and all(layer.dropout is None for layer in model.layers):
        return ()
    return ("the masks of the config's dropout are kept: a byte an element" + ("" if run.attention == "eager" else ", none of the scores"),)


def _sampled_notes(run: Essence) -> list[str]:
    wanted, notes = run.post_training, []
    if wanted.reward_parameter_count:
        notes.append("the reward model is held in 16 bits, sharded like the weights")
    if run.method.objective == "ppo":
        size = "the reward model's" if wanted.reward_parameter_count is not None else "the policy's"
        notes.append(f"the value model has {size} size and is trained like the policy; its activations are not alive with the policy's")
    if wanted.generator == "separate":
        notes.append("answers are generated on other devices")
    elif wanted.generated_tokens is None:
        notes.append("generation is not counted: give post_training.generated_tokens")
    else:
        notes.append(
            "answers to a micro-batch of prompts are generated on these devices, training states resident; a sharded model is gathered "
            "for it in 16 bits over as few devices as hold it"
        )
    return notes
