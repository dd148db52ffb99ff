"""What of a run decides its memory, looked up once: the stack's tables, the way it trains, the lengths it reads.

A setting depends on no layout or batch field (but on whether weights are gathered), so a search and the quotes of one model
share it; it is remembered by the architecture's identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..architecture import Architecture
from ..by_identity import ByIdentity
from ..parameters import adapters_outside, trained
from ..placement import divides_weights
from ..run import Method, PostTraining, Precision, Run, Software
from ..stacks import STACKS, stack_of
from ..stacks.profile import AUTOCAST, COMPUTE, HALF, RESIDUAL, SINGLE, BlockRule, LossRule, Mode, Stack
from .activations import MASK, Adapter, Kept, norm_output, norm_rule, operators, score_bytes
from .kinds import Kind, kinds_of

SAMPLED = frozenset({"ppo", "grpo"})  # objectives that sample their own answers
REFERENCED = frozenset({"dpo"}) | SAMPLED  # under adapters the base itself is the reference


class Essence(NamedTuple):
    """The fields of a run that a setting depends on; the key under which it is remembered."""

    method: Method
    precision: Precision
    software: Software
    post_training: PostTraining
    activation_checkpointing: str
    attention: str
    gathered: bool  # weights pass a sharding engine that casts them
    longest_note: bool
    length: int
    decoder_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The scalars of a run that memory depends on; weights in elements."""

    stack: Stack
    mode: Mode
    rules: BlockRule
    loss: LossRule
    checkpointing: str
    kinds: tuple[Kind, ...]
    blocks: int
    blocks_before: tuple[np.ndarray[Any, Any], ...]  # of each kind among the first n blocks
    first_blocks: tuple[tuple[int, Kept, bool], ...]  # what first blocks keep beyond their kind: index, coefficients, decoder
    first_positions: float  # per position, also under checkpointing
    first_squares: float  # per squared position, also under checkpointing (T5's position biases)
    lingering_squares: float  # of them, what checkpointing leaves alive after the backward pass
    scores: float  # per token and key: gradients of the scores of one block, where they are stored
    input_gradient: bool  # the embedded input is a leaf that keeps its gradient (enable_input_require_grads)
    leaf_apart: bool  # and no block keeps it: a patch convolution's output, or token embeddings that positions are added to
    embedding_masks: float  # bytes per token of what dropout keeps outside the blocks, of each stack
    pixels: float  # elements per position of the input image
    widest: float  # intermediate width
    largest: float  # weights of the largest matrix of a block
    hidden: int
    vocabulary: float
    length: int
    decoder_length: int
    sequences: int  # of one batch element
    adapter: Adapter | None
    embedding: float
    head: float  # of an untied head
    outside: float  # other weights outside the blocks
    outside_matrices: float  # of them, those that autocast casts (a patch convolution, a pooler)
    trained_embedding: float
    trained_head: float
    trained_outside: float
    outside_adapters: float
    outside_copies: float  # of them, in whole copies of modules
    head_trained: bool
    tied_trained: bool  # token table and head are one trained tensor
    norms_trained: bool
    mlp_trained: bool
    bias_trained: bool  # the table of relative position biases
    head_per_token: bool
    cross: bool  # an encoder and a decoder
    encoded_kept: bool  # blocks keep the encoder's output uncast, and count it
    scaled_output: bool  # the head reads a scaled copy of the last hidden state (T5 with a tied head)
    quantized_head: bool
    kept_scale: float
    reference: bool  # a second, frozen copy of the model answers beside the trained one
    total: float  # weights of the whole model
    reward: float  # weights of a frozen reward model
    value_share: float  # of a value model that is trained beside the policy: its size over the policy's
    notes: tuple[str, ...]  # what had to be assumed

    @property
    def casts(self) -> bool:
        """Whether autocast keeps 16-bit copies of the matrices."""
        return self.mode == AUTOCAST and self.stack.weight_casts

    @property
    def written_out(self) -> bool:
        """Whether what the last norm makes on its way is known."""
        rule = norm_rule(self.rules, self.kinds[-1].layer)
        return self.mode == HALF and self.stack.counted and rule.backward > 0.0

    @property
    def untabled(self) -> bool:
        """Whether casts of the first block's gradients can be the peak: no token table's gradient comes after them."""
        return self.casts and self.embedding == 0.0

    @property
    def biased(self) -> bool:
        """Whether recomputed stacks hand on a learned position bias."""
        return self.checkpointing == "full" and self.first_squares > 0.0

    @property
    def recomputes(self) -> bool:
        """Whether the backward pass makes a block's values again."""
        return self.checkpointing == "full" or (self.checkpointing == "selective" and self.stack.selective.drops == "outputs")

    @property
    def late_share(self) -> float:
        """How much of the loss's tensors this loss holds, of what the stack's plain one does."""
        return self.loss.backward_extra[self.loss_mode] / self.stack.loss.backward_extra[self.loss_mode]

    @property
    def loss_mode(self) -> Mode:
        """Whose widths the loss has: autocast runs cross entropy in 32 bits over 16-bit weights, too."""
        return operators(self.mode, self.adapter)

    @property
    def hidden_bytes(self) -> float:
        """Bytes per element of the last norm's output."""
        return max(RESIDUAL[self.mode], norm_output(norm_rule(self.rules, self.kinds[-1].layer), self.mode, self.adapter))


def longest(run: Run) -> int | None:
    """The longest sequence of the run: it decides the peak, not the mean."""
    if run.sequence_length is None:
        return None
    if run.data.histogram and run.data.packing == "none":
        sample = max(prompt + target for prompt, target, count in run.data.histogram if count)
        return min(sample, run.sequence_length) if run.data.truncation else sample
    return run.sequence_length


def setting(run: Run, table: Stack | None = None) -> Setting | None:
    """The setting of a run; None where shape or sequence length are not known. ``table`` stands in for the stack's own."""
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
        gathered=_gathers(run),
        longest_note=bool(run.data.histogram) and run.data.packing == "none",
        length=length,
        decoder_length=run.decoder_sequence_length or length,
    )
    known: Setting = _remembered(run.architecture, essence)
    if table is None:
        return known
    return replace(known, stack=table, kept_scale=_kept_scale(table, essence))


def _gathers(run: Run) -> bool:
    """Whether blocks compute on weights that a sharding engine has gathered, and cast on the way."""
    return divides_weights(run)


@ByIdentity
def _remembered(model: Architecture, run: Essence) -> Setting:
    stack = stack_of(run.software, run.precision)
    mode, adapter = _mode(run, stack), _adapter(run, stack)
    rules = stack.compiled_blocks if run.software.compile else stack.blocks
    checkpointed = run.activation_checkpointing == "full"
    kinds, firsts = kinds_of(model, run.method, rules, mode, run.attention != "eager", adapter, checkpointed=checkpointed)
    method = trained(model, run.method)
    embedding = float(sum(v.size for v in model.embeddings))
    head = float(model.head.parameters) if model.head is not None and not model.head_tied else 0.0
    outside = float(sum(m.parameters for m in model.outside) + sum(v.size for v in model.outside_vectors))
    head_trained = model.head is not None and method.head(model.head_tied)
    total = sum((kind.split + kind.whole + kind.experts) * len(kind.indices) for kind in kinds) + embedding + head + outside
    return Setting(
        stack=stack,
        mode=mode,
        rules=rules,
        loss=_loss(model, run, stack),
        checkpointing=run.activation_checkpointing,
        kinds=kinds,
        blocks=len(model.layers),
        blocks_before=tuple(_before(kind, len(model.layers)) for kind in kinds),
        first_blocks=firsts,
        first_positions=sum(kept.positions for _, kept, _ in firsts),
        first_squares=sum(kept.shared_squares for _, kept, _ in firsts),
        lingering_squares=sum(COMPUTE[mode] * kinds[0].layer.attention.query_heads for _, kept, _ in firsts if kept.shared_squares),
        scores=0.0 if run.attention != "eager" else max(_scores(rules, kind, operators(mode, adapter)) for kind in kinds),
        input_gradient=_input_grads(run),
        leaf_apart=_input_grads(run) and _embeds_in_steps(model),
        embedding_masks=MASK * model.embedding_dropouts * model.hidden * (1.0 if method.embeddings or _input_grads(run) else 0.0),
        pixels=float(sum(m.inputs for m in model.outside if m.reads == "pixels")),
        widest=max(kind.intermediate for kind in kinds),
        largest=max(kind.largest for kind in kinds),
        hidden=model.hidden,
        vocabulary=_outputs(model, run),
        length=run.length,
        decoder_length=run.decoder_length,
        sequences=run.method.sequences_per_element,
        adapter=adapter,
        embedding=embedding,
        head=head,
        outside=outside,
        outside_matrices=float(sum(m.weights for m in model.outside)),
        trained_embedding=embedding if method.embeddings else 0.0,
        trained_head=head if head_trained else 0.0,
        trained_outside=outside if method.part("norms") else 0.0,
        outside_adapters=_outside_adapters(model, run.method),
        outside_copies=_saved_modules(model, run.method),
        head_trained=head_trained,
        tied_trained=model.head_tied and method.embeddings and head_trained,
        norms_trained=method.part("norms"),
        mlp_trained=method.part("mlp"),
        bias_trained=method.embeddings,
        cross=model.encoder_decoder,
        encoded_kept=mode != AUTOCAST
        and method.part("attention")
        and any(decoder and (kept.shared_squares or kept.cross_replicated > 0.0) for _, kept, decoder in firsts),
        scaled_output=model.encoder_decoder and model.head_tied and model.layers[0].attention.position_bias is not None,
        head_per_token=model.head is not None and model.head.per_token,
        quantized_head=stack.quantized_outside and run.method.quantization is not None,
        kept_scale=_kept_scale(stack, run),
        reference=run.method.objective in REFERENCED and run.post_training.reference == "model" and not run.method.adapters,
        total=total,
        reward=float(run.post_training.reward_parameter_count or 0) if run.method.objective in SAMPLED else 0.0,
        value_share=_value_share(run, total),
        notes=(*_relative(run, stack), *_notes(run, stack), *_dropped(model, run)),
    )


def _outputs(model: Architecture, run: Essence) -> float:
    """Of the head, for each token it reads."""
    if model.head is None:
        return 0.0
    return 1.0 if run.method.objective == "reward_model" else float(model.head.outputs)


def _value_share(run: Essence, total: float) -> float:
    """Of PPO's value model, which starts from the reward model and has its size; without one it has the policy's."""
    if run.method.objective != "ppo":
        return 0.0
    count = run.post_training.reward_parameter_count
    return 1.0 if count is None else count / total


def _input_grads(run: Essence) -> bool:
    return run.method.lora is not None and run.method.lora.input_grads


def _embeds_in_steps(model: Architecture) -> bool:
    """Whether the blocks' input is not the first embedding itself."""
    return any(m.reads == "pixels" for m in model.outside) or (len(model.embeddings) > 1 and not model.encoder_decoder)


def _scores(rules: BlockRule, kind: Kind, mode: Mode) -> float:
    a = kind.layer.attention
    return score_bytes(rules, a, mode) * a.query_heads


def _mode(run: Essence, stack: Stack) -> Mode:
    """16-bit, autocast or 32-bit training."""
    if run.precision.recipe == "fp32":
        return SINGLE
    if run.method.quantization is not None and stack.quantized_mode is not None and not run.software.compile:
        return stack.quantized_mode
    if run.precision.recipe == "bf16_pure" or run.precision.weight_bytes <= 2:
        return HALF
    return stack.mixed_sharded_mode if run.gathered else stack.mixed_mode


def _adapter(run: Essence, stack: Stack) -> Adapter | None:
    lora = run.method.lora
    if lora is None:
        return None
    mixed = run.precision.recipe.endswith("_mixed")
    return Adapter(
        rank=lora.rank,
        element_bytes=lora.adapter_bytes if stack.adapter_bytes is None or run.precision.recipe == "fp32" else stack.adapter_bytes,
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


def _before(kind: Kind, blocks: int) -> np.ndarray[Any, Any]:
    marks = np.zeros(blocks + 1)
    marks[[index + 1 for index in kind.indices]] = 1.0
    return np.cumsum(marks)


def _outside_adapters(model: Architecture, method: Method) -> float:
    """Weights outside the blocks that train beside the frozen ones: low-rank pairs, and copies that ``modules_to_save`` makes."""
    pairs = () if method.lora is None else adapters_outside(model, method.lora)
    return float(sum(pair.parameters for pair in pairs)) + _saved_modules(model, method)


def _saved_modules(model: Architecture, method: Method) -> float:
    names = method.lora.modules_to_save if method.lora is not None else ()
    head = model.head
    sizes = [float(head.parameters)] if head is not None and any(head.name.endswith(name) for name in names) else []
    sizes += [float(table.size) for table in model.embeddings if any(table.name.endswith(name) for name in names)]
    return sum(sizes)


def _notes(run: Essence, stack: Stack) -> tuple[str, ...]:
    notes = []
    if run.longest_note:
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
