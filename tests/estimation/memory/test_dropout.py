"""What dropout keeps, as PyTorch's saved-tensor hooks counted it over transformers 5.24 (torch 2.13, ``native_dropout``, eager attention).

Measured on models of two and three blocks, hidden 64, 4 heads, 2 sequences of 32 tokens (ViT: of 17), with the config's dropout at
0.1 and at 0; a block's share is the difference of the differences. Bytes in bf16 and in fp32, of a block and outside the blocks.
"""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation import memory, parameters
from service.kit.merge_patch import patched as merged
from service.specs.load import run_of

H, HEADS, B, S = 64, 4, 2, 32
GPT = {"n_embd": H, "n_head": HEADS, "vocab_size": 128, "n_positions": 64}
LLAMA = {"hidden_size": H, "num_attention_heads": HEADS, "num_key_value_heads": 2, "intermediate_size": 160, "vocab_size": 128}
PLAIN = {"hidden_size": H, "num_attention_heads": HEADS, "intermediate_size": 256, "vocab_size": 128}
T5 = {"d_model": H, "num_heads": HEADS, "d_kv": 16, "d_ff": 160, "vocab_size": 128}
# model_type, shape, name of the depth, dropout fields, bytes of a block in bf16 and fp32, bytes outside the blocks
MEASURED: list[tuple[str, dict[str, Any], str, tuple[str, ...], int, int, int]] = [
    ("gpt2", GPT, "n_layer", ("attn_pdrop", "resid_pdrop", "embd_pdrop"), 32768, 49152, 4096),
    ("gpt_bigcode", GPT, "n_layer", ("attn_pdrop", "resid_pdrop", "embd_pdrop"), 16384, 49152, 4096),
    ("gptj", {**GPT, "rotary_dim": 16}, "n_layer", ("attn_pdrop", "resid_pdrop", "embd_pdrop"), 16384, 49152, 4096),
    ("llama", LLAMA, "num_hidden_layers", ("attention_dropout",), 8192, 40960, 0),
    ("bert", PLAIN, "num_hidden_layers", ("hidden_dropout_prob", "attention_probs_dropout_prob"), 32768, 49152, 4096),
    ("gpt_neox", PLAIN, "num_hidden_layers", ("hidden_dropout", "attention_dropout"), 16384, 49152, 4096),
    ("phi", PLAIN, "num_hidden_layers", ("resid_pdrop", "embd_pdrop", "attention_dropout"), 16384, 49152, 4096),
    (
        "phi3",
        {**PLAIN, "num_key_value_heads": HEADS},
        "num_hidden_layers",
        ("resid_pdrop", "embd_pdrop", "attention_dropout"),
        16384,
        49152,
        0,
    ),
    ("bloom", {"hidden_size": H, "n_head": HEADS, "vocab_size": 128}, "n_layer", ("hidden_dropout", "attention_dropout"), 16384, 49152, 0),
    ("falcon", PLAIN, "num_hidden_layers", ("hidden_dropout",), 4096, 4096, 0),
    (
        "opt",
        {"hidden_size": H, "num_attention_heads": HEADS, "ffn_dim": 256, "vocab_size": 128, "word_embed_proj_dim": H},
        "num_hidden_layers",
        ("dropout", "attention_dropout"),
        16384,
        49152,
        0,
    ),
    (
        "starcoder2",
        {**PLAIN, "num_key_value_heads": 2},
        "num_hidden_layers",
        ("residual_dropout", "embedding_dropout", "attention_dropout"),
        16384,
        49152,
        4096,
    ),
    ("stablelm", {**PLAIN, "num_key_value_heads": HEADS}, "num_hidden_layers", ("hidden_dropout", "attention_dropout"), 12288, 45056, 0),
    # A block of each stack together.
    ("t5", T5, "num_layers", ("dropout_rate",), 155648, 245760, 16384),
    ("t5", {**T5, "feed_forward_proj": "gated-gelu"}, "num_layers", ("dropout_rate",), 114688, 163840, 16384),
]


def saved(config: dict[str, Any], depth: str, recipe: str, attention: str = "eager", **options: Any) -> tuple[int, float]:
    """Bytes that a model of so many blocks keeps in them, and all activations at the end of the forward pass."""
    spec = {
        "model": {"hf_config": config},
        "data": {"total_tokens": 10**6},
        "sequence_length": S,
        "batch": {"micro_batch_size": B},
        "precision": {"recipe": recipe},
        "attention": attention,
        "hardware": {"device": "h100-sxm-80gb"},
    }
    run = run_of(merged(spec, options))
    found = memory.estimate(run, parameters.count(run))
    assert found.saved_bytes_per_layer is not None
    forward = next(phase for phase in found.phases if phase["phase"] == "forward")
    return sum(found.saved_bytes_per_layer), forward["parts"]["activations"]


@pytest.mark.parametrize(("kind", "shape", "depth", "drops", "half", "single", "outside"), MEASURED)
def test_masks_are_those_that_torch_keeps(
    kind: str, shape: dict[str, Any], depth: str, drops: tuple[str, ...], half: int, single: int, outside: int
) -> None:
    for recipe, expected in (("bf16_pure", half), ("fp32", single)):
        more = {}
        for blocks in (2, 3):
            config = {"model_type": kind, **shape, depth: blocks}
            off = saved({**config, **dict.fromkeys(drops, 0.0)}, depth, recipe)
            on = saved({**config, **dict.fromkeys(drops, 0.1)}, depth, recipe)
            more[blocks] = on[0] - off[0]
            # What is outside the blocks is kept too, though no block counts it.
            assert on[1] - off[1] == pytest.approx(more[blocks] + outside)
        assert more[3] - more[2] == expected


def test_a_config_without_dropout_fields_drops_nothing() -> None:
    config = {"model_type": "gpt2", **GPT, "n_layer": 2}
    assert saved(config, "n_layer", "bf16_pure") == saved({**config, "attn_pdrop": 0.0, "resid_pdrop": 0}, "n_layer", "bf16_pure")


def test_fused_attention_keeps_no_mask_of_the_scores() -> None:
    config = {"model_type": "llama", **LLAMA, "num_hidden_layers": 2}
    plain = saved(config, "", "bf16_pure", "sdpa")
    assert saved({**config, "attention_dropout": 0.1}, "", "bf16_pure", "sdpa") == plain


def test_full_checkpointing_keeps_the_masks_outside_the_blocks_alone() -> None:
    config = {"model_type": "gpt2", **GPT, "n_layer": 2}
    drops = dict.fromkeys(("attn_pdrop", "resid_pdrop", "embd_pdrop"), 0.1)
    off = saved(config, "", "bf16_pure", activation_checkpointing="full")
    on = saved({**config, **drops}, "", "bf16_pure", activation_checkpointing="full")
    assert on[0] == off[0]
    assert on[1] - off[1] == B * S * H


def test_bert_softmaxes_in_the_width_of_its_scores() -> None:
    """2 bytes a score in bf16 and 4 in fp32, as counted by the same hooks at two lengths."""
    for recipe, expected in (("bf16_pure", 2), ("fp32", 4)):
        config = {"model_type": "bert", **PLAIN, "num_hidden_layers": 1}
        short = saved(config, "", recipe, sequence_length=16)[0] / (B * 16)
        longer = saved(config, "", recipe, sequence_length=32)[0] / (B * 32)
        assert (longer - short) / 16 / HEADS == pytest.approx(expected)
