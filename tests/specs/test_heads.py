"""What ``architectures`` names instead of a language model: parameter counts that transformers prints, and no logits."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation import parameters
from service.quotes.quoting import build
from service.specs.hf_config import read
from tests.estimation.runs import a_run, oracle_configs

BERT: dict[str, Any] = {
    "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
}  # fmt: skip
ROBERTA = {**BERT, "model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}


def counted(config: dict[str, Any], name: str, **more: Any) -> int:
    return int(parameters.count(a_run(read({**config, "architectures": [name], **more}))).total)


@pytest.mark.parametrize(
    ("config", "name", "parameters_there"),
    [  # sum(p.numel() for p in model.parameters()) of the published base models
        (BERT, "BertForMaskedLM", 109_514_298),
        (BERT, "BertModel", 109_482_240),
        (BERT, "BertForSequenceClassification", 109_483_778),
        (BERT, "BertForTokenClassification", 108_893_186),
        (BERT, "BertForQuestionAnswering", 108_893_186),
        (ROBERTA, "RobertaForMaskedLM", 124_697_433),
        (ROBERTA, "RobertaModel", 124_645_632),
        (ROBERTA, "RobertaForSequenceClassification", 124_647_170),
        (GPT2, "GPT2LMHeadModel", 124_439_808),
        (GPT2, "GPT2Model", 124_439_808),
        (GPT2, "GPT2ForSequenceClassification", 124_441_344),
    ],
)
def test_parameters_are_those_of_the_class_that_the_config_names(config: dict[str, Any], name: str, parameters_there: int) -> None:
    assert counted(config, name) == parameters_there


@pytest.mark.parametrize("name", ["LlamaModel", "LlamaForSequenceClassification"])
def test_that_there_is_no_language_model_head_is_said(name: str) -> None:
    config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
    found = read({**config, "vocab_size": 1000, "architectures": [name]})
    assert f"no language-model head: architectures names {name}" in found.assumptions


def test_chatglm_is_a_language_model_though_its_class_is_named_as_a_bare_one() -> None:
    """chatglm3-6b's config.json names ChatGLMModel and loads ChatGLMForConditionalGeneration (auto_map): 6,243,584,000 parameters."""
    config = {
        "model_type": "chatglm", "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32, "ffn_hidden_size": 13696,
        "padded_vocab_size": 65024, "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
        "add_qkv_bias": True, "add_bias_linear": False, "rmsnorm": True, "seq_length": 8192, "post_layer_norm": True,
        "layernorm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": False,
    }  # fmt: skip
    assert counted(config, "ChatGLMModel") == 6_243_584_000


def test_a_classifier_has_as_many_outputs_as_labels() -> None:
    labels = {str(n): f"L{n}" for n in range(5)}
    assert counted(BERT, "BertForSequenceClassification", id2label=labels) == 109_483_778 + 3 * 769


def logits(config: dict[str, Any], name: str) -> float:
    quote = build(
        {
            "model": {"hf_config": {**config, "architectures": [name]}},
            "data": {"total_tokens": 10**7},
            "sequence_length": 96,
            "batch": {"micro_batch_size": 64},
            "precision": {"recipe": "bf16_mixed"},
            "hardware": {"device": "a100-sxm-80gb", "device_count": 1},
        }
    )
    return float(next(item["expected"] for item in quote["items"] if item["code"] == "memory.logits"))


@pytest.mark.parametrize("name", ["RobertaForSequenceClassification", "RobertaForTokenClassification", "RobertaModel"])
def test_a_model_without_a_vocabulary_to_score_has_no_logits_to_speak_of(name: str) -> None:
    assert logits(ROBERTA, name) < 1e6 < 1e9 < logits(ROBERTA, "RobertaForMaskedLM")


@pytest.mark.parametrize("model", sorted(oracle_configs()))
def test_every_language_model_of_the_oracle_keeps_its_head(model: str) -> None:
    config = oracle_configs()[model]["full"]
    named = config.get("architectures", [""])[0]
    if named.endswith(("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")):
        found = read(config)
        assert found.head is not None
        assert found.head.outputs == config["vocab_size"]
