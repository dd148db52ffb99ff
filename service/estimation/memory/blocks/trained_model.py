"""The model as a run trains it: all of a run that decides its memory, whatever the layout, looked up once.

It depends on no layout or batch field (but on whether weights are gathered), so a search and the quotes of one model share it;
it is remembered by the architecture's identity. Weights are counted in elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...architecture import Architecture, Layer
from ...by_identity import ByIdentity
from ...parameters import Trained, adapters_outside, trained
from ...placement import divides_weights
from ...recipes import RECIPES
from ...run import Method, PostTraining, Precision, Run, Software
from ...stacks import stack_of
from ...stacks.profile import AUTOCAST, HALF, SINGLE, LossRule, Mode, Stack
from .block_kind import AtFirst, BlockKind, kinds_of
from .coefficients import MASK, Adapter, Computing

SAMPLED = frozenset({"ppo", "grpo"})  # objectives that sample their own answers
REFERENCED = frozenset({"dpo"}) | SAMPLED  # under adapters the base itself is the reference


class Essence(NamedTuple):
    """The fields of a run that its trained model depends on; the key under which it is remembered."""

    method: Method
    precision: Precision
    software: Software
    post_training: PostTraining
    activation_checkpointing: str
    attention: str
    gathered: bool  # weights pass a sharding engine that casts them
    longest_decides: bool  # samples are not packed: the longest one decides
    length: int
    decoder_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Positions of one sequence."""

    sequence: int  # of the encoder where there are two stacks
    decoder: int  # the same number where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBlocks:
    """What the first block of each stack keeps beyond its kind, and what of it stays though blocks are recomputed."""

    each: tuple[AtFirst, ...]
    positions: float  # bytes per position
    squares: float  # bytes per squared position (T5's position biases)
    lingering_squares: float  # of them, what checkpointing leaves alive after the backward pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What stands before the first block."""

    keeps_gradient: bool  # the embedded input is a leaf that keeps its gradient (enable_input_require_grads)
    leaf_apart: bool  # and no block keeps it: a patch convolution's output, or token embeddings that positions are added to
    masks: float  # bytes per token of what dropout keeps outside the blocks, of each stack
    pixels: float  # elements per position of the input image


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Weights outside the blocks."""

    embedding: float
    head: float  # of an untied head
    rest: float
    rest_matrices: float  # of the rest, those that autocast casts (a patch convolution, a pooler)
    trained_embedding: float
    trained_head: float
    trained_rest: float
    adapters: float
    copies: float  # of the adapters, in whole copies of modules (``modules_to_save``)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head over the last hidden state, and its loss."""

    loss: LossRule
    late_share: float  # how much of the loss's tensors this loss holds, of what the stack's plain one does
    kept: float  # bytes per token that the last norm and the head keep
    outputs: float  # for each token that it reads: the vocabulary, or one
    per_token: bool  # reads every token, not one a sequence
    read_share: float  # of the tokens, those that it makes outputs for
    trained: bool
    tied_trained: bool  # token table and head are one trained tensor
    reads_scaled: bool  # it reads a scaled copy of the last hidden state (T5 with a tied head)
    quantized: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trains:
    """Which parts are trained."""

    norms: bool
    mlp: bool
    position_bias: bool  # the table of relative position biases


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """Models that stand beside the trained one."""

    reference: bool  # a second, frozen copy answers beside it
    reward: float  # weights of a frozen reward model
    value_share: float  # of a value model that is trained beside the policy: its size over the policy's


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of the model, and what all of them have in common."""

    kinds: tuple[BlockKind, ...]
    count: int
    counts_before: tuple[np.ndarray[Any, Any], ...]  # how many blocks of each kind are among the first n
    first: FirstBlocks
    widest: float  # intermediate width
    largest_matrix: float  # weights of the largest matrix of a block
    score_gradients: float  # bytes per token and key of the gradients of one block's scores; 0 where scores are not stored
    kept_scale: float  # what blocks keep, as a multiple of the rules' sum (fitted; 1 where the rules are exact)
    keep_encoded: bool  # they keep the encoder's output uncast, and count it
    hand_on_bias: bool  # recomputed stacks hand on a learned position bias
    split_by_moments: bool  # moments between attention and MLP can be the peak, whatever the kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalNorm:
    """The last norm of the residual stream."""

    kept: float  # bytes per token that it keeps
    output_bytes: float  # of an element that it hands on
    written_out: bool  # it is no single kernel, and what it makes on its way is known


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """A model with all that a run makes of it before it is laid out."""

    essence: Essence
    stack: Stack
    how: Computing
    checkpointing: str
    lengths: Lengths
    inputs: Inputs
    blocks: Blocks
    final_norm: FinalNorm
    head: Head
    outside: Outside
    trains: Trains
    companions: Companions
    total_weights: float
    encoder_decoder: bool
    casts: bool  # autocast keeps 16-bit copies of the matrices
    recomputes: bool  # the backward pass makes a block's values again
    ends_without_table: bool  # no token table's gradient comes after the first block's, so casts of these can be the peak


def longest(run: Run) -> int | None:
    """The longest sequence of the run: it decides the peak, not the mean."""
    if run.sequence_length is None:
        return None
    if run.data.histogram and run.data.packing == "none":
        sample = max(prompt + target for prompt, target, count in run.data.histogram if count)
        return min(sample, run.sequence_length) if run.data.truncation else sample
    return run.sequence_length


def trained_model(run: Run, table: Stack | None = None) -> TrainedModel | None:
    """The model that a run trains; None where shape or sequence length are not known. ``table`` stands in for the stack's own."""
    length = longest(run)
    if not run.architecture.shape_known or length is None:
        return None
    essence = Essence(
        method=run.method,
        precision=run.precision,
        software=run.software,
        post_training=run.post_training,
        activation_checkpointing=run.activation_checkpointing,
        attention=run.attention,
        gathered=divides_weights(run),
        longest_decides=bool(run.data.histogram) and run.data.packing == "none",
        length=length,
        decoder_length=run.decoder_sequence_length or length,
    )
    known: TrainedModel = _remembered(run.architecture, essence)
    if table is None:
        return known
    return replace(known, stack=table, blocks=replace(known.blocks, kept_scale=_kept_scale(table, essence)))


class _Source(NamedTuple):
    """What a trained model is made from."""

    architecture: Architecture
    run: Essence
    stack: Stack
    how: Computing
    parts: Trained  # what is trained of it


@ByIdentity
def _remembered(architecture: Architecture, run: Essence) -> TrainedModel:
    stack = stack_of(run.software, run.precision)
    how = Computing(
        rules=stack.compiled_blocks if run.software.compile else stack.blocks,
        mode=_mode(run, stack),
        fused=run.attention != "eager",
        hidden=architecture.hidden,
        adapter=_adapter(run, stack),
    )
    parts, checkpointing = trained(architecture, run.method), run.activation_checkpointing
    source, casts = _Source(architecture, run, stack, how, parts), how.mode == AUTOCAST and stack.weight_casts
    outside = _outside(architecture, run.method, parts)
    ends_without_table = casts and outside.embedding == 0.0
    blocks = _blocks(source, ends_without_table)
    final_norm = _final_norm(source, blocks.kinds[-1].layer)
    in_blocks = sum((kind.weights.split + kind.weights.whole + kind.weights.experts) * len(kind.indices) for kind in blocks.kinds)
    total = in_blocks + outside.embedding + outside.head + outside.rest
    return TrainedModel(
        essence=run,
        stack=stack,
        how=how,
        checkpointing=checkpointing,
        lengths=Lengths(sequence=run.length, decoder=run.decoder_length),
        inputs=_inputs(source),
        blocks=blocks,
        final_norm=final_norm,
        head=_head(source, final_norm),
        outside=outside,
        trains=Trains(norms=parts.part("norms"), mlp=parts.part("mlp"), position_bias=parts.embeddings),
        companions=_companions(run, total),
        total_weights=total,
        encoder_decoder=architecture.encoder_decoder,
        casts=casts,
        recomputes=checkpointing == "full" or (checkpointing == "selective" and stack.selective.drops == "outputs"),
        ends_without_table=ends_without_table,
    )


def _blocks(source: _Source, ends_without_table: bool) -> Blocks:
    architecture, run, stack, how, parts = source
    full, count = run.activation_checkpointing == "full", len(architecture.layers)
    kinds, at_first = kinds_of(architecture, run.method, how, full)
    first = FirstBlocks(
        each=at_first,
        positions=sum(one.kept.positions for one in at_first),
        squares=sum(one.kept.shared_squares for one in at_first),
        lingering_squares=sum(how.width * kinds[0].layer.attention.query_heads for one in at_first if one.kept.shared_squares),
    )
    scores = 0.0 if how.fused else max(how.score_bytes(kind.layer.attention) * kind.layer.attention.query_heads for kind in kinds)
    hand_on_bias = full and first.squares > 0.0
    encoded = any(one.decoder and (one.kept.shared_squares or one.kept.cross_replicated > 0.0) for one in at_first)
    return Blocks(
        kinds=kinds,
        count=count,
        counts_before=tuple(_before(kind, count) for kind in kinds),
        first=first,
        widest=max(kind.intermediate for kind in kinds),
        largest_matrix=max(kind.weights.largest for kind in kinds),
        score_gradients=scores,
        kept_scale=_kept_scale(stack, run),
        keep_encoded=how.mode != AUTOCAST and parts.part("attention") and encoded,
        hand_on_bias=hand_on_bias,
        split_by_moments=bool(scores) or ends_without_table or hand_on_bias,
    )


def _inputs(source: _Source) -> Inputs:
    architecture, lora = source.architecture, source.run.method.lora
    keeps_gradient = lora is not None and lora.input_grads
    pixels = [m for m in architecture.outside if m.reads == "pixels"]
    # Whether the blocks' input is not the first embedding itself.
    in_steps = bool(pixels) or (len(architecture.embeddings) > 1 and not architecture.encoder_decoder)
    dropped = 1.0 if source.parts.embeddings or keeps_gradient else 0.0
    return Inputs(
        keeps_gradient=keeps_gradient,
        leaf_apart=keeps_gradient and in_steps,
        masks=MASK * architecture.embedding_dropouts * architecture.hidden * dropped,
        pixels=float(sum(m.inputs for m in pixels)),
    )


def _outside(architecture: Architecture, method: Method, parts: Trained) -> Outside:
    own_head = architecture.head if not architecture.head_tied else None
    embedding = float(sum(v.size for v in architecture.embeddings))
    head = 0.0 if own_head is None else float(own_head.parameters)
    rest = float(sum(m.parameters for m in architecture.outside) + sum(v.size for v in architecture.outside_vectors))
    pairs = () if method.lora is None else adapters_outside(architecture, method.lora)
    copies = _saved_modules(architecture, method)
    return Outside(
        embedding=embedding,
        head=head,
        rest=rest,
        rest_matrices=float(sum(m.weights for m in architecture.outside)),
        trained_embedding=embedding if parts.embeddings else 0.0,
        trained_head=head if own_head is not None and parts.head(False) else 0.0,
        trained_rest=rest if parts.part("norms") else 0.0,
        adapters=float(sum(pair.parameters for pair in pairs)) + copies,
        copies=copies,
    )


def _final_norm(source: _Source, last: Layer) -> FinalNorm:
    how, rule = source.how, source.how.norm(last)
    scaled = rule.normalized[how.mode] if source.parts.part("norms") else 0.0
    return FinalNorm(
        kept=(how.norm_input(rule) + scaled) * how.hidden + rule.statistics,
        output_bytes=max(how.residual, how.norm_output(rule)),
        written_out=how.mode == HALF and source.stack.counted and rule.backward > 0.0,
    )


def _head(source: _Source, final_norm: FinalNorm) -> Head:
    architecture, run, stack, how, parts = source
    head, loss = architecture.head, _loss(architecture, run, stack)
    per_token, is_trained = head is not None and head.per_token, head is not None and parts.head(architecture.head_tied)
    width = how.width if is_trained else 0.0
    if how.mode == AUTOCAST and not per_token:
        width = 0.0  # a cast of the few rows that a classifier reads; else their view keeps the whole
    return Head(
        loss=loss,
        late_share=loss.backward_extra[how.operators] / stack.loss.backward_extra[how.operators],
        kept=final_norm.kept + width * how.hidden + 16.0,  # 8h + 4 for Hugging Face's RMSNorm in 16 bits, and 16 of indices
        outputs=0.0 if head is None else 1.0 if run.method.objective == "reward_model" else float(head.outputs),
        per_token=per_token,
        read_share=_answered(run),
        trained=is_trained,
        tied_trained=architecture.head_tied and parts.embeddings and is_trained,
        reads_scaled=architecture.encoder_decoder and architecture.head_tied and architecture.layers[0].attention.position_bias is not None,
        quantized=stack.quantized_outside and run.method.quantization is not None,
    )


def _answered(run: Essence) -> float:
    """Share of a sequence that is an answer, where logits are made of answers alone.

    TRL's GRPO asks the model for the last ``logits_to_keep`` = completion + 1 positions (``grpo_trainer.py``,
    ``_get_per_token_logps_and_entropies``; pull request 2683); its PPO and DPO trainers make all.
    """
    generated = run.post_training.generated_tokens
    if run.method.objective != "grpo" or generated is None:
        return 1.0
    return min(1.0, (generated + 1) / run.length)


def _companions(run: Essence, total: float) -> Companions:
    sampled, wanted = run.method.objective in SAMPLED, run.post_training
    return Companions(
        reference=run.method.objective in REFERENCED and wanted.reference == "model" and not run.method.adapters,
        reward=float(wanted.reward_parameter_count or 0) if sampled else 0.0,
        value_share=_value_share(run, total),
    )


def _value_share(run: Essence, total: float) -> float:
    """Of PPO's value model, which starts from the reward model and has its size; without one it has the policy's."""
    if run.method.objective != "ppo":
        return 0.0
    count = run.post_training.reward_parameter_count
    return 1.0 if count is None else count / total


def _mode(run: Essence, stack: Stack) -> Mode:
    """16-bit, autocast or 32-bit training."""
    recipe = RECIPES[run.precision.recipe]
    if recipe.product_bits == 32:
        return SINGLE
    if run.method.quantization is not None and stack.quantized_mode is not None and not run.software.compile:
        return stack.quantized_mode
    if recipe.trains_16_bit_weights or run.precision.weight_bytes <= 2:
        return HALF
    return stack.mixed_sharded_mode if run.gathered else stack.mixed_mode


def _adapter(run: Essence, stack: Stack) -> Adapter | None:
    lora = run.method.lora
    if lora is None:
        return None
    recipe = RECIPES[run.precision.recipe]
    mixed = recipe.autocasts
    return Adapter(
        rank=lora.rank,
        element_bytes=lora.adapter_bytes if stack.adapter_bytes is None or recipe.product_bits == 32 else stack.adapter_bytes,
        dropout=lora.dropout > 0,
        autocast=mixed and stack.mixed_mode == AUTOCAST,
        gathered=mixed and (stack.mixed_sharded_mode if run.gathered else stack.mixed_mode) == HALF,
    )


def _loss(model: Architecture, run: Essence, stack: Stack) -> LossRule:
    software, quantization = run.software, run.method.quantization
    if software.fused_loss:
        return stack.fused_loss
    if software.compile and software.logits_dtype_bytes is not None and software.logits_dtype_bytes <= 2:
        return stack.compiled_loss
    if quantization is not None and quantization.format in stack.loss_by_quantization:
        return stack.loss_by_quantization[quantization.format]
    return stack.own_width_loss if stack.own_width_loss is not None and not model.loss_in_single else stack.loss


def _kept_scale(stack: Stack, run: Essence) -> float:
    scale = stack.kept_compiled if run.software.compile else stack.kept
    return scale * (stack.kept_quantized if run.method.quantization is not None else 1.0)


def _before(kind: BlockKind, blocks: int) -> np.ndarray[Any, Any]:
    marks = np.zeros(blocks + 1)
    marks[[index + 1 for index in kind.indices]] = 1.0
    return np.cumsum(marks)


def _saved_modules(model: Architecture, method: Method) -> float:
    names = method.lora.modules_to_save if method.lora is not None else ()
    head = model.head
    sizes = [float(head.parameters)] if head is not None and any(head.name.endswith(name) for name in names) else []
    sizes += [float(table.size) for table in model.embeddings if any(table.name.endswith(name) for name in names)]
    return sum(sizes)
