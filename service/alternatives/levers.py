"""Levers: what could be changed of a run that does not fit, each by growing steps, as merge patches of the run spec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from service.catalog.devices import offered
from service.estimation.memory.timeline.beside_step import generates
from service.estimation.optimizers import OPTIMIZERS
from service.estimation.placement import FULLY_SHARDED
from service.estimation.recipes import RECIPES
from service.estimation.run import Run
from service.estimation.stacks import STACKS
from service.kit.merge_patch import both

Change = dict[str, Any]

SHARDING = ("none", "zero1", "zero2", "zero3")
CHECKPOINTING = ("none", "selective", "full")
RANK = 16
SMALLEST_RANK = 8
MOST_DEVICES = 64  # times as many devices as asked for: more are another project
MOST_FACTOR = 1024  # that a micro-batch is divided by on the way to one sequence
SHORTEST, SHORTEST_SHARE = 512, 8  # tokens, and of the length asked for: a shorter sequence is another task
LENGTH_GRAIN = 256
# Widths follow from recipe, stack and method again.
NO_WIDTHS: Change = {"weight_bytes": None, "gradient_bytes": None, "master_weight_bytes": None, "optimizer_state_bytes": None}
NO_LINKS: Change = {"device_override": None, "intra_node_bytes_per_second": None, "inter_node_bytes_per_second": None}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lever:
    """One kind of change by growing steps. ``group`` says what it touches, so that like is added up with like."""

    group: str
    steps: tuple[Change, ...]
    note: str | None = None  # what the caller should know before taking it
    falling: bool = False  # no step leaves a higher peak than the step before it: where one fits, so do all after it


def levers(run: Run) -> Iterator[Lever]:
    """All levers that apply, in the order of what they usually cost."""
    yield from _same(run)
    yield from _layouts(run)
    yield from _offload(run)
    yield from _numbers(run)
    yield from _trained(run)
    yield from _length(run)
    yield from _devices(run)


def _same(run: Run) -> Iterator[Lever]:
    """Changes after which the same numbers are computed, on the same ranks."""
    software, layout, micro = run.software, run.layout, int(run.batch.micro_batch_size)
    if run.attention == "eager":
        # A learned position bias needs a mask, which flash kernels do not take.
        yield Lever(group="same", steps=({"attention": "sdpa" if run.architecture.encoder_decoder else "flash"},))
    if not software.fused_loss:
        yield Lever(group="same", steps=({"software": {"fused_loss": True}},))
    stack = STACKS[software.stack]
    if run.optimizer.implementation == "foreach" and stack.foreach_temporaries and OPTIMIZERS[run.optimizer.name].foreach_temporaries:
        yield Lever(group="same", steps=({"optimizer": {"implementation": "fused"}},))
    # Divisors, largest first: by the factors that anyone would take out, and one sequence in the end.
    smaller = [micro // factor for factor in range(2, min(micro, MOST_FACTOR) + 1) if micro % factor == 0]
    smaller += [1] if micro > MOST_FACTOR else []
    if smaller:
        yield Lever(group="same", steps=tuple({"batch": {"micro_batch_size": size}} for size in smaller), falling=True)
    if int(layout.data) * int(layout.context) > 1:
        stages = SHARDING[SHARDING.index(layout.sharding) + 1 :] if layout.sharding in SHARDING else ("zero3",)
        if stages:
            yield Lever(group="same", steps=tuple({"parallelism": {"sharding": stage, "shard_group_size": None}} for stage in stages))
    if run.method.objective == "dpo" and run.post_training.reference == "model" and not run.method.adapters:
        yield Lever(
            group="same", steps=({"post_training": {"reference": "cached"}},), note="the reference's log-probabilities are computed before"
        )
    if run.checkpointing.state_dict == "full_on_device":
        yield Lever(group="same", steps=({"checkpointing": {"state_dict": "full"}}, {"checkpointing": {"state_dict": "sharded"}}))
    deeper = CHECKPOINTING[CHECKPOINTING.index(run.activation_checkpointing) + 1 :]
    if deeper:
        yield Lever(group="same", steps=tuple({"activation_checkpointing": kind} for kind in deeper))


def _layouts(run: Run) -> Iterator[Lever]:
    """Model-parallel dimensions by powers of two, as far as the data-parallel ranks go."""
    assert run.hardware is not None
    layout, can = run.layout, STACKS[run.software.stack].dimensions
    experts = max((layer.mlp.experts for layer in run.architecture.layers), default=0)
    ranks = int(layout.data) * int(layout.context) * int(layout.tensor)
    most = {
        "tensor": min(run.hardware.devices_per_node, int(layout.tensor) * int(layout.data)),
        "context": int(layout.context) * int(layout.data),
        "pipeline": min(len(run.architecture.layers), int(layout.pipeline) * int(layout.data)),
        "expert": min(experts, ranks),
    }
    for name in ("expert", "tensor", "context", "pipeline"):
        now = int(getattr(layout, name))
        sizes = [now * 2**k for k in range(1, 16) if now * 2**k <= most[name]] if name in can else []
        if sizes:
            also: Change = {"sequence_parallel": True} if name == "tensor" else {}
            steps = tuple({"parallelism": {name: size, **also}} for size in sizes)
            yield Lever(group=name, steps=steps, falling=name in ("tensor", "context"))


def _offload(run: Run) -> Iterator[Lever]:
    now = set(run.software.cpu_offload)
    wanted: list[set[str]] = [{"optimizer"}, {"activations"}]
    if run.layout.sharding in FULLY_SHARDED:
        wanted.append({"optimizer", "parameters"})
    wanted.append(set().union(*wanted))
    steps = [sorted(now | more) for more in wanted if not more <= now]
    unique = [step for index, step in enumerate(steps) if step not in steps[:index]]
    if unique:
        yield Lever(group="offload", steps=tuple({"software": {"cpu_offload": step}} for step in unique))


def _numbers(run: Run) -> Iterator[Lever]:
    """Changes of width and optimizer: the same model is trained, by other arithmetic."""
    others = OPTIMIZERS[run.optimizer.name].lighter
    if others:
        note = "another optimizer: its states are narrower, factored, or paged to the host (slower than said where the device is full)"
        steps = tuple({"optimizer": {"name": name}, "precision": {"optimizer_state_bytes": None}} for name in others)
        yield Lever(group="numbers", steps=steps, note=note)
    has_bf16 = run.hardware is not None and run.hardware.device.peak_bf16_flops_per_second is not None
    recipes = RECIPES[run.precision.recipe].lighter if has_bf16 else ()
    if run.method.adapters:  # the base is in 16 bits already under every other recipe
        recipes = recipes[:1] if RECIPES[run.precision.recipe].activation_bytes > 2 else ()
    if recipes:
        steps = tuple({"precision": {"recipe": recipe, **NO_WIDTHS}} for recipe in recipes)
        yield Lever(group="numbers", steps=steps, note="weights and states in fewer bits: see that the loss follows")


def _trained(run: Run) -> Iterator[Lever]:
    """Changes of what is trained: adapters, and how their base is stored."""
    method = run.method
    if method.lora is not None:
        if method.lora.dropout > 0:
            yield Lever(group="training", steps=({"method": {"lora": {"dropout": 0}}},))
        if method.lora.adapter_bytes > 2:
            yield Lever(group="training", steps=({"method": {"lora": {"adapter_bytes": 2}}, "precision": NO_WIDTHS},))
        ranks = [method.lora.rank // 2**k for k in range(1, 16) if method.lora.rank // 2**k >= SMALLEST_RANK]
        if ranks:
            yield Lever(group="training", steps=tuple({"method": {"lora": {"rank": rank}}} for rank in ranks), falling=True)
    quantized: list[Change] = [
        {"kind": "qlora", "quantization": {"format": "nf4", "block_size": 64, "double_quantization": twice}} for twice in (False, True)
    ]
    if method.lora is None:
        lora: Change = {"lora": {"rank": RANK, "target_modules": "all-linear"}, "frozen": None}
        adapted = [{"kind": "lora", **lora}, *({**one, **lora} for one in quantized)]
        note = "trains adapters on a frozen base, not the model itself"
        yield Lever(group="training", steps=tuple({"method": one, "precision": NO_WIDTHS} for one in adapted), note=note)
        return
    now = method.quantization
    if now is not None and now.format in ("nf4", "fp4"):
        quantized = [] if now.double_quantization else [{"quantization": {"double_quantization": True}}]
    elif now is not None and now.format == "gptq_int4":
        quantized = []
    if quantized:
        yield Lever(group="training", steps=tuple({"method": one, "precision": {"weight_bytes": None}} for one in quantized))


def _length(run: Run) -> Iterator[Lever]:
    length = run.sequence_length
    if length is None or run.architecture.image_positions is not None:
        return
    least = max(SHORTEST, length // SHORTEST_SHARE)
    eighths = [length * k // 8 for k in (7, 6, 5, 4)] + [length * k // 16 for k in (7, 6, 5, 4)] + [length * k // 32 for k in (7, 6, 5, 4)]
    lengths = sorted({value // LENGTH_GRAIN * LENGTH_GRAIN for value in eighths if value >= least and value >= LENGTH_GRAIN}, reverse=True)
    if lengths:
        note = "longer samples are cut or split"
        also = run.decoder_sequence_length if run.architecture.encoder_decoder else None
        steps = tuple(
            {"sequence_length": n} if also is None else {"sequence_length": n, "decoder_sequence_length": min(n, also)} for n in lengths
        )
        yield Lever(group="length", steps=steps, note=note, falling=True)


def _devices(run: Run) -> Iterator[Lever]:
    """More of the same device, and another device."""
    assert run.hardware is not None
    layout, count, can = run.layout, run.hardware.device_count, STACKS[run.software.stack].dimensions
    shard: Change = {} if layout.sharding in FULLY_SHARDED else {"parallelism": {"sharding": "zero3"}}
    factors = [2**k for k in range(1, MOST_DEVICES.bit_length())]
    more: list[tuple[str, dict[int, Change]]] = [("more", dict.fromkeys(factors, shard))]
    if "tensor" in can:
        tensor, most = int(layout.tensor), run.hardware.devices_per_node
        wider: dict[int, Change] = {
            f: {"parallelism": {"tensor": tensor * f, "sequence_parallel": True}} for f in factors if tensor * f <= most
        }
        more.append(("more tensor", wider))
    if "pipeline" in can:
        pipeline, blocks = int(layout.pipeline), len(run.architecture.layers)
        more.append(("more pipeline", {f: {"parallelism": {"pipeline": pipeline * f}} for f in factors if pipeline * f <= blocks}))
    for group, also in more:
        steps = tuple({"hardware": {"device_count": count * factor}, **extra} for factor, extra in also.items())
        if steps:
            # Stages that do not divide the blocks evenly can hold more than fewer, even ones do.
            yield Lever(group=group, steps=steps, falling=group != "more pipeline")
    if generates(run):
        note = "answers are generated on devices that are not counted here"
        yield Lever(group="more", steps=({"post_training": {"generator": "separate"}},), note=note)
    name, known = run.hardware.device.name, offered()
    larger = known[known.index(name) + 1 :] if name in known else known
    steps = tuple({"hardware": {"device": other, **NO_LINKS}} for other in larger)
    yield Lever(group="device", steps=steps, note="the ratio compares hours of unlike devices")


def settled(run: Run, change: Change) -> Change | None:
    """The change with the accumulation that keeps the global batch; None where the layout is not legal or the batch cannot be kept."""
    assert run.hardware is not None
    layout, batch, wanted = run.layout, run.batch, change.get("parallelism", {})
    tensor, pipeline, context, expert = (
        int(wanted.get(name) or getattr(layout, name)) for name in ("tensor", "pipeline", "context", "expert")
    )
    devices = int(change.get("hardware", {}).get("device_count") or run.hardware.device_count)
    length = change.get("sequence_length") or run.sequence_length
    if devices % (tensor * pipeline * context) or not _divides(run, tensor, context, expert, devices // pipeline, length):
        return None
    data = devices // (tensor * pipeline * context)
    micro = int(change.get("batch", {}).get("micro_batch_size") or batch.micro_batch_size)
    if (micro, data) == (int(batch.micro_batch_size), int(layout.data)):
        return change
    total = int(batch.global_batch_size)
    steps = -(-total // (micro * data))
    unused = int(batch.micro_batch_size) * int(batch.gradient_accumulation_steps) * int(layout.data) - total
    if micro * data * steps - total > unused:
        return None
    return both(change, {"batch": {"gradient_accumulation_steps": steps}})


def _divides(run: Run, tensor: int, context: int, expert: int, ranks: int, length: int | None) -> bool:
    """Whether heads, experts and the sequence divide; what the caller asked for already is not judged."""
    layout = run.layout
    if tensor != int(layout.tensor):
        heads = {layer.attention.query_heads for layer in run.architecture.layers}
        if any(number % tensor for number in heads):
            return False
    if expert != int(layout.expert):
        experts = max((layer.mlp.experts for layer in run.architecture.layers), default=0)
        if not experts or experts % expert or ranks % expert:
            return False
    elif ranks % expert and expert <= int(layout.data) * int(layout.context) * int(layout.tensor):
        return False
    if context != int(layout.context) and context > 1:
        return length is not None and length % (2 * context) == 0 and run.architecture.image_positions is None
    return True
