"""Fields that were given to save memory and save none in this run: said, never silently ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from service.estimation.optimizers import OPTIMIZERS
from service.estimation.placement import FULLY_SHARDED, divides_weights
from service.estimation.run import Layout, Run, Software
from service.estimation.stacks import STACKS, stack_of
from service.estimation.warnings import Warning, no_effect

from .spec import RunSpec

NOT_SHARDED = "only fully sharded parameters (zero3, hybrid) are offloaded"


def effective(software: Software, layout: Layout) -> Software:
    """The software as it runs: parameters that no one shards stay on their device."""
    if layout.sharding in FULLY_SHARDED:
        return software
    return replace(software, cpu_offload=software.cpu_offload - {"parameters"})


def warnings(spec: RunSpec, run: Run) -> list[Warning]:
    """One warning for every such field; a default, said aloud as an answer's spec does, is no mistake."""
    return [
        *(no_effect(pointer, why) for pointer, why in _idle(spec, run)),
        *(
            Warning(code="saves_no_memory", detail=f"{pointer} saves no memory: {why}", pointer=pointer)
            for pointer, why in _vain(spec, run)
        ),
    ]


def _idle(spec: RunSpec, run: Run) -> Iterator[tuple[str, str]]:
    stack, layout = STACKS[run.software.stack], run.layout
    wanted = spec.software.cpu_offload if spec.software is not None else None
    if wanted == ["parameters"] and layout.sharding not in FULLY_SHARDED:
        yield "/software/cpu_offload", NOT_SHARDED
    if run.software.fsdp_version is not None:
        if stack.fsdp_version is None or not divides_weights(run):
            yield "/software/fsdp_version", "no weights are sharded by PyTorch's FSDP"
        elif not (run.method.adapters and run.software.checkpoint_reentrant and run.activation_checkpointing == "full"):
            yield "/software/fsdp_version", "both hold the same but for adapters under full, reentrant checkpointing"
    if run.optimizer.implementation == "fused":
        if not stack.foreach_temporaries:
            yield "/optimizer/implementation", f"{stack.title} steps with a fused optimizer of its own"
        elif not OPTIMIZERS[run.optimizer.name].foreach_temporaries:
            yield "/optimizer/implementation", f"{run.optimizer.name} has one form here"
    if layout.expert_tensor is not None and not any(layer.mlp.experts for layer in run.architecture.layers):
        yield "/parallelism/expert_tensor", "the model has no experts"
    if layout.expert_imbalance != Layout().expert_imbalance:
        if int(layout.expert) == 1:
            yield "/parallelism/expert_imbalance", "all experts are on every rank"
        elif not any(layer.mlp.experts for layer in run.architecture.layers):
            yield "/parallelism/expert_imbalance", "the model has no experts"
    policy = run.checkpointing.state_dict
    if policy != "full" and (layout.sharding == "none" or int(layout.data) * int(layout.context) == 1):
        yield "/checkpointing/state_dict", "nothing is sharded, so nothing is gathered"


def _vain(spec: RunSpec, run: Run) -> Iterator[tuple[str, str]]:
    wanted = (spec.software.cpu_offload if spec.software is not None else None) or []
    if "parameters" in wanted and len(wanted) > 1 and run.layout.sharding not in FULLY_SHARDED:
        yield "/software/cpu_offload", f"parameters, of its parts: {NOT_SHARDED}"
    rule = stack_of(run.software, run.precision).selective
    if run.activation_checkpointing == "selective" and run.attention != "eager" and rule.drops == "scores":
        again = " (the core is computed again all the same)" if rule.repeated_under_fused_kernels.attention else ""
        yield (
            "/activation_checkpointing",
            f"selective drops the attention scores, and fused attention stores none{again}; full drops the rest",
        )
