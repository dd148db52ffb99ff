"""The model as a run trains it: all of a run that decides its memory, whatever the layout, looked up once.

It depends on no layout or batch field (but on whether weights are gathered), so a search and the quotes of one model share it;
it is remembered by the architecture's identity. Weights are counted in elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...architecture import Architecture
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
    outputs: float  # for each token that it reads: the vocabulary, or one
    per_token: bool  # reads every token, not one a sequence
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
class TrainedModel:
    """A model with all that a run makes of it before it is laid out."""

    essence: Essence
    stack: Stack
    how: Computing
    checkpointing: str
    kinds: tuple[BlockKind, ...]
    block_count: int
    counts_before: tuple[np.ndarray[Any, Any], ...]  # how many blocks of each kind are among the first n
    first: FirstBlocks
    score_gradients: float  # bytes per token and key of the gradients of one block's scores; 0 where scores are not stored
    widest: float  # intermediate width
    largest_matrix: float  # weights of the largest matrix of a block
    lengths: Lengths
    inputs: Inputs
    outside: Outside
    head: Head
    trains: Trains
    companions: Companions
    total_weights: float
    encoder_decoder: bool
    encoded_kept: bool  # blocks keep the encoder's output uncast, and count it
    kept_scale: float  # what blocks keep, as a multiple of the rules' sum (fitted; 1 where the rules are exact)
    casts: bool  # autocast keeps 16-bit copies of the matrices
    recomputes: bool  # the backward pass makes a block's values again
    norm_written_out: bool  # what the last norm makes on its way is known
    normalised_bytes: float  # of an element of the last norm's output
    norm_kept: float  # bytes per token that one norm of the residual stream keeps
    head_kept: float  # bytes per token that the last norm and the head keep
    hands_on_bias: bool  # recomputed stacks hand on a learned position bias
    ends_without_table: bool  # no token table's gradient comes after the first block's, so casts of these can be the peak
    splits_blocks: bool  # moments between attention and MLP can be the peak, whatever the kind
    late_share: float  # how much of the loss's tensors this loss holds, of what the stack's plain one does


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
    return replace(known, stack=table, kept_scale=_kept_scale(table, essence))


@ByIdentity
def _remembered(model: Architecture, run: Essence) -> TrainedModel:
    stack = stack_of(run.software, run.precision)
    how = Computing(
        rules=stack.compiled_blocks if run.software.compile else stack.blocks,
        mode=_mode(run, stack),
        fused=run.attention != "eager",
        hidden=model.hidden,
        adapter=_adapter(run, stack),
    )
    checkpointing, counted = run.activation_checkpointing, stack.counted
    kinds, at_first = kinds_of(model, run.method, how, checkpointed=checkpointing == "full")
    method = trained(model, run.method)
    outside, head = _outside(model, run.method, method), _head(model, run, stack, method)
    in_blocks = sum((kind.weights.split + kind.weights.whole + kind.weights.experts) * len(kind.indices) for kind in kinds)
    total = in_blocks + outside.embedding + outside.head + outside.rest
    first = FirstBlocks(
        each=at_first,
        positions=sum(one.kept.positions for one in at_first),
        squares=sum(one.kept.shared_squares for one in at_first),
        lingering_squares=sum(how.width * kinds[0].layer.attention.query_heads for one in at_first if one.kept.shared_squares),
    )
    scores = 0.0 if how.fused else max(how.score_bytes(kind.layer.attention) * kind.layer.attention.query_heads for kind in kinds)
    casts = how.mode == AUTOCAST and stack.weight_casts
    norm = how.norm(kinds[-1].layer)
    norm_kept = (how.norm_input(norm) + (norm.normalized[how.mode] if method.part("norms") else 0.0)) * how.hidden + norm.statistics
    hands_on_bias, ends_without_table = checkpointing == "full" and first.squares > 0.0, casts and outside.embedding == 0.0
    return TrainedModel(
        essence=run,
        stack=stack,
        how=how,
        checkpointing=checkpointing,
        kinds=kinds,
        block_count=len(model.layers),
        counts_before=tuple(_before(kind, len(model.layers)) for kind in kinds),
        first=first,
        score_gradients=scores,
        widest=max(kind.intermediate for kind in kinds),
        largest_matrix=max(kind.weights.largest for kind in kinds),
        lengths=Lengths(sequence=run.length, decoder=run.decoder_length),
        inputs=_inputs(model, run, method),
        outside=outside,
        head=head,
        trains=Trains(norms=method.part("norms"), mlp=method.part("mlp"), position_bias=method.embeddings),
        companions=Companions(
            reference=run.method.objective in REFERENCED and run.post_training.reference == "model" and not run.method.adapters,
            reward=float(run.post_training.reward_parameter_count or 0) if run.method.objective in SAMPLED else 0.0,
            value_share=_value_share(run, total),
        ),
        total_weights=total,
        encoder_decoder=model.encoder_decoder,
        encoded_kept=how.mode != AUTOCAST
        and method.part("attention")
        and any(one.decoder and (one.kept.shared_squares or one.kept.cross_replicated > 0.0) for one in at_first),
        kept_scale=_kept_scale(stack, run),
        casts=casts,
        recomputes=checkpointing == "full" or (checkpointing == "selective" and stack.selective.drops == "outputs"),
        norm_written_out=how.mode == HALF and counted and norm.backward > 0.0,
        normalised_bytes=max(how.residual, how.norm_output(norm)),
        norm_kept=norm_kept,
        head_kept=_head_kept(how, head, norm_kept),
        hands_on_bias=hands_on_bias,
        ends_without_table=ends_without_table,
        splits_blocks=bool(scores) or ends_without_table or hands_on_bias,
        late_share=head.loss.backward_extra[how.operators] / stack.loss.backward_extra[how.operators],
    )


def _inputs(model: Architecture, run: Essence, method: Trained) -> Inputs:
    keeps_gradient = run.method.lora is not None and run.method.lora.input_grads
    # Whether the blocks' input is not the first embedding itself.
    in_steps = any(m.reads == "pixels" for m in model.outside) or (len(model.embeddings) > 1 and not model.encoder_decoder)
    return Inputs(
        keeps_gradient=keeps_gradient,
        leaf_apart=keeps_gradient and in_steps,
        masks=MASK * model.embedding_dropouts * model.hidden * (1.0 if method.embeddings or keeps_gradient else 0.0),
        pixels=float(sum(m.inputs for m in model.outside if m.reads == "pixels")),
    )


def _outside(model: Architecture, run: Method, method: Trained) -> Outside:
    embedding = float(sum(v.size for v in model.embeddings))
    head = float(model.head.parameters) if model.head is not None and not model.head_tied else 0.0
    rest = float(sum(m.parameters for m in model.outside) + sum(v.size for v in model.outside_vectors))
    pairs = () if run.lora is None else adapters_outside(model, run.lora)
    copies = _saved_modules(model, run)
    return Outside(
        embedding=embedding,
        head=head,
        rest=rest,
        rest_matrices=float(sum(m.weights for m in model.outside)),
        trained_embedding=embedding if method.embeddings else 0.0,
        trained_head=head if model.head is not None and method.head(model.head_tied) else 0.0,
        trained_rest=rest if method.part("norms") else 0.0,
        adapters=float(sum(pair.parameters for pair in pairs)) + copies,
        copies=copies,
    )


def _head(model: Architecture, run: Essence, stack: Stack, method: Trained) -> Head:
    outputs = 0.0 if model.head is None else 1.0 if run.method.objective == "reward_model" else float(model.head.outputs)
    is_trained = model.head is not None and method.head(model.head_tied)
    return Head(
        loss=_loss(model, run, stack),
        outputs=outputs,
        per_token=model.head is not None and model.head.per_token,
        trained=is_trained,
        tied_trained=model.head_tied and method.embeddings and is_trained,
        reads_scaled=model.encoder_decoder and model.head_tied and model.layers[0].attention.position_bias is not None,
        quantized=stack.quantized_outside and run.method.quantization is not None,
    )


def _head_kept(how: Computing, head: Head, norm_kept: float) -> float:
    """8h + 4 for Hugging Face's RMSNorm in 16 bits, and 16 of indices."""
    width = how.width if head.trained else 0.0
    if how.mode == AUTOCAST and not head.per_token:
        width = 0.0  # a cast of the few rows that a classifier reads; else their view keeps the whole
    return norm_kept + width * how.hidden + 16.0


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
