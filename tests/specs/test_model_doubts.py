"""A model that may not be the one that is trained: refused where no model has the shape, else said."""

from __future__ import annotations

from typing import Any

import pytest

from service.quotes.quoting import build
from service.specs.errors import SpecError
from service.specs.load import parse
from service.specs.resolve import resolve

COUNT = {"parameter_count": 7e9, "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32_000}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32_000,
    "max_position_embeddings": 4096,
}
GPTQ = {"quantization_config": {"quant_method": "gptq", "bits": 4}}


def quoted(model: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return build({"model": model, "data": {"total_tokens": 1e9}, "sequence_length": 2048, **parts})


def told(model: dict[str, Any], **parts: Any) -> set[tuple[str, str]]:
    """Code and pointer of what is said of the model."""
    found = quoted(model, **parts)["warnings"]
    return {(warning["code"], warning["pointer"]) for warning in found if str(warning["pointer"]).startswith("/model")}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"num_attention_heads": 33}, "/model/hidden_size"),
        ({"num_attention_heads": 8192}, "/model/hidden_size"),
        ({"num_key_value_heads": 5}, "/model/num_key_value_heads"),
        ({"num_key_value_heads": 64}, "/model/num_key_value_heads"),
        ({"num_attention_heads": None, "num_key_value_heads": 5}, "/model/num_key_value_heads"),
        ({"parameter_count": 1e8}, "/model/parameter_count"),
    ],
)
def test_a_shape_that_no_model_has_is_refused_beside_a_count_as_in_a_config(change: dict[str, Any], pointer: str) -> None:
    model = {name: value for name, value in {**COUNT, **change}.items() if value is not None}
    with pytest.raises(SpecError) as refused:
        resolve(parse({"model": model, "data": {"total_tokens": 1e9}}))
    assert pointer in str(refused.value.errors)


@pytest.mark.parametrize("change", [{}, {"num_attention_heads": 33, "head_dim": 128}, {"num_key_value_heads": 8}])
def test_a_shape_that_holds_is_taken(change: dict[str, Any]) -> None:
    resolve(parse({"model": {**COUNT, **change}, "data": {"total_tokens": 1e9}}))


def test_a_config_that_is_known_has_no_doubts() -> None:
    assert told({"hf_config": LLAMA}) == set()
    assert told({"hf_config": {**LLAMA, "model_type": "yi"}}) == set()
    assert told({"hf_config": {"model_type": "llava", "text_config": LLAMA}}) == set()


def test_a_type_that_is_only_guessed_is_said() -> None:
    unknown = ("unknown_model_type", "/model/hf_config/model_type")
    assert told({"hf_config": {**LLAMA, "model_type": "novel"}}) == {unknown}
    assert told({"hf_config": {name: value for name, value in LLAMA.items() if name != "model_type"}}) == {unknown}
    nested = {"model_type": "novel_vl", "text_config": {**LLAMA, "model_type": "novel"}}
    assert told({"hf_config": nested}) == {("unknown_model_type", "/model/hf_config/text_config/model_type")}


def test_a_tower_that_is_left_out_is_said() -> None:
    composite = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 1024}}
    assert told({"hf_config": composite}) == {("tower_left_out", "/model/hf_config/vision_config")}


@pytest.mark.parametrize("kind", ["full", "lora", "qlora"])
def test_how_the_checkpoint_is_stored_changes_nothing_and_that_is_said(kind: str) -> None:
    plain, stored = (quoted({"hf_config": {**LLAMA, **change}}, method={"kind": kind}) for change in ({}, GPTQ))
    assert plain["items"] == stored["items"]
    silent = ("no_effect", "/model/hf_config/quantization_config")
    assert told({"hf_config": {**LLAMA, **GPTQ}}, method={"kind": kind}) == {silent}
    nested = {"model_type": "llava", "text_config": {**LLAMA, **GPTQ}}
    assert ("no_effect", "/model/hf_config/text_config/quantization_config") in told({"hf_config": nested}, method={"kind": kind})


def test_a_base_whose_format_is_given_is_not_in_doubt() -> None:
    method = {"kind": "lora", "quantization": {"format": "gptq_int4"}}
    assert told({"hf_config": {**LLAMA, **GPTQ}}, method=method) == set()
