"""Hugging Face configs as callers post them: every family, aliases, defaults, nests, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimation.parameters import count
from service.specs import counted, hf_config
from service.specs.hf_config import ConfigError, UnknownModelType, read
from service.specs.presets import architecture as preset
from tests.estimation.runs import a_run, oracle_configs, rows

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def total(config: dict) -> int:
    """Parameters of a config."""
    return count(a_run(read(config))).total


def test_hub_keys_that_are_not_shape_change_nothing() -> None:
    """Unknown keys are allowed, ``torch_dtype`` is storage only."""
    extra = {
        "torch_dtype": "float16",
        "transformers_version": "4.43.0",
        "rope_scaling": {"factor": 8.0},
        "_name_or_path": "x",
        "auto_map": {"a": "b"},
    }
    assert total({**LLAMA, **extra}) == total(LLAMA) == 8_030_261_248


def test_defaults_are_stated() -> None:
    """What the config leaves out comes from the class and is said."""
    model = read({"model_type": "llama"})
    said = " ".join(model.assumptions)
    assert "hidden_size = 4096" in said
    assert "transformers 5.24" in said
    assert count(a_run(model)).total == 6_738_415_616


def test_head_dim_may_differ_from_hidden_over_heads() -> None:
    """Mistral-Nemo-like: 32 heads of 128 on 5,120."""
    config = {**LLAMA, "hidden_size": 5120, "head_dim": 128}
    layer = read(config).layers[0]
    assert layer.matrices[0].outputs == 32 * 128
    assert total({**LLAMA, "head_dim": None}) == 8_030_261_248


def test_aliases_of_attribute_maps() -> None:
    """GPT-2's own names and the common ones."""
    own = {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25}
    common = {"model_type": "gpt2", "hidden_size": 1600, "num_hidden_layers": 48, "num_attention_heads": 25}
    assert total(own) == total(common) == 1_557_611_200


def test_text_config_nests() -> None:
    """The language model of a composite config, and a note of what is left out."""
    nested = {
        "model_type": "gemma3",
        "vision_config": {"hidden_size": 1152},
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 262144,
            "sliding_window": 1024,
        },
    }
    model = read(nested)
    assert "vision_config" in model.assumptions[0]
    assert count(a_run(model)).total == count(a_run(preset("gemma-3-4b"))).total  # type: ignore[arg-type]
    del nested["text_config"]["model_type"]  # type: ignore[attr-defined]
    assert count(a_run(read(nested))).total == count(a_run(model)).total
    bare = {key: value for key, value in LLAMA.items() if key != "model_type"}
    with pytest.raises(UnknownModelType):
        read({"model_type": "some_new_vlm", "text_config": bare})
    with pytest.raises(ConfigError) as caught:
        read({"model_type": "gemma3"})
    assert caught.value.pointer == "/text_config"


def test_the_pointer_of_a_nested_fault() -> None:
    """A bad value is named where it stands."""
    with pytest.raises(ConfigError) as caught:
        read({"model_type": "llava", "text_config": {**LLAMA, "hidden_size": "large"}})
    assert caught.value.pointer == "/text_config/hidden_size"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"hidden_size": -1}, "/hidden_size"),
        ({"hidden_size": 4096.5}, "/hidden_size"),
        ({"hidden_size": True}, "/hidden_size"),
        ({"num_hidden_layers": 10**9}, "/num_hidden_layers"),
        ({"num_key_value_heads": 7}, "/num_key_value_heads"),
        ({"tie_word_embeddings": "yes"}, "/tie_word_embeddings"),
        ({"hidden_size": 4097}, "/hidden_size"),
        ({"model_type": 7}, "/model_type"),
        ({"vocab_size": float("inf")}, "/vocab_size"),
    ],
)
def test_bad_values(change: dict, pointer: str) -> None:
    """Each fault points at its field."""
    with pytest.raises(ConfigError) as caught:
        read({**LLAMA, **change})
    assert caught.value.pointer == pointer


def test_integral_floats_are_taken() -> None:
    """``4096.0`` is an integer."""
    assert total({**LLAMA, "hidden_size": 4096.0}) == 8_030_261_248


def test_an_unknown_type_is_refused_by_name() -> None:
    """Without the generic fields, or with signs that the blocks are different ones."""
    with pytest.raises(UnknownModelType) as caught:
        read({"model_type": "lama"})
    assert "lama" in caught.value.detail
    assert "llama" in caught.value.detail
    assert caught.value.pointer == "/model_type"
    with pytest.raises(UnknownModelType):
        read({**LLAMA, "model_type": "new_moe", "num_experts": 64})
    with pytest.raises(UnknownModelType):
        read({**LLAMA, "model_type": "hybrid", "mamba_d_state": 16})
    with pytest.raises(UnknownModelType) as caught:  # it has every generic field, and another count than a Llama
        read({**LLAMA, "model_type": "gemma4_text"})
    assert "gemma4_text" in caught.value.detail


def test_an_unknown_type_with_generic_fields_is_read_and_says_so() -> None:
    """As a Llama, in words."""
    model = read({**LLAMA, "model_type": "brand_new"})
    assert count(a_run(model)).total == 8_030_261_248
    assert model.family == "brand_new"
    assert any("brand_new" in note and "Llama" in note for note in model.assumptions)
    assert count(a_run(read({key: value for key, value in LLAMA.items() if key != "model_type"}))).total == 8_030_261_248


def test_windows_by_layer() -> None:
    """Gemma 2 alternates, Gemma 3 has five to one, Qwen 2 starts late, gpt-oss follows its layer_types."""
    configs = oracle_configs()
    windows = [layer.attention.window for layer in read(configs["gemma-2-9b"]["full"]).layers]
    assert windows == [4096, None] * 21
    gemma3 = preset("gemma-3-1b")
    assert gemma3 is not None
    assert [layer.attention.window for layer in gemma3.layers[:7]] == [512] * 5 + [None, 512]
    qwen = {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 128, "max_window_layers": 30}
    assert [layer.attention.window for layer in read(qwen).layers] == [None] * 30 + [128] * 2
    assert all(layer.attention.window is None for layer in read({**qwen, "use_sliding_window": False}).layers)
    oss = {"model_type": "gpt_oss", "num_hidden_layers": 4, "layer_types": ["full_attention", "sliding_attention"] * 2}
    assert [layer.attention.window for layer in read(oss).layers] == [None, 128, None, 128]
    assert [layer.attention.window for layer in read({**oss, "layer_types": None}).layers] == [128, None] * 2
    with pytest.raises(ConfigError):
        read({**oss, "layer_types": ["full_attention"]})
    with pytest.raises(ConfigError):
        read({**oss, "layer_types": ["linear_attention"] * 4})
    mistral = {**LLAMA, "model_type": "mistral"}
    assert read(mistral).layers[0].attention.window == 4096  # the class default
    assert read({**mistral, "sliding_window": None}).layers[0].attention.window is None


def test_equal_blocks_are_one_object() -> None:
    """126 layers of Llama-3.1-405B are one block."""
    model = preset("llama-3.1-405b")
    assert model is not None
    assert len(model.kinds()) == 1
    assert len(model.layers) == 126


def test_experts() -> None:
    """Dense layers where the config puts them; more experts a token than there are is a fault."""
    model = preset("deepseek-v3")
    assert model is not None
    assert [layer.kind for layer in model.layers[:4]] == ["decoder"] * 3 + ["moe"]
    assert model.multi_token_prediction_layers == 1
    with pytest.raises(ConfigError) as caught:
        read({"model_type": "mixtral", "num_experts_per_tok": 9})
    assert caught.value.pointer == "/num_experts_per_tok"


def test_kimi_k2_is_deepseek_v3() -> None:
    """Another name, the same modules: 1.026 T parameters, 32.9 B active."""
    config = {
        "model_type": "kimi_k2",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "n_routed_experts": 384,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 1,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 163840,
        "num_nextn_predict_layers": 0,
    }
    parameters = count(a_run(read(config)))
    assert parameters.total == pytest.approx(1.026e12, rel=1e-3)
    assert parameters.active == pytest.approx(32.9e9, rel=1e-2)


@given(
    st.dictionaries(
        st.sampled_from((*LLAMA, "head_dim", "layer_types", "text_config", "num_experts", "sliding_window", "attn_config")),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-5, 5000),
            st.floats(),
            st.text(max_size=4),
            st.lists(st.integers(0, 3), max_size=3),
            st.just({}),
        ),
    ),
    st.sampled_from(sorted(hf_config.READERS)),
)
def test_hostile_configs_raise_nothing_else(values: dict, model_type: str) -> None:
    """Whatever is posted either reads or is a ``ConfigError``."""
    try:
        model = read({**values, "model_type": model_type})
    except ConfigError as error:
        assert error.pointer.startswith("/") or error.pointer == ""
    else:
        assert count(a_run(model)).total >= 0


def test_every_reader_reads_its_defaults() -> None:
    """Types with class defaults in transformers read from their name alone."""
    known = {row["config"]["model_type"] for row in rows("parameter_counts.jsonl")}
    assert len(known) > 55
    remote = {"internlm", "internlm2", "baichuan", "qwen", "chatglm"}  # their code lies beside the weights, not in transformers
    assert set(hf_config.READERS) - known - remote <= {"deit"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # https://arxiv.org/abs/2309.16609, table 1; the intermediate size is gate and up together
        (
            {
                "model_type": "qwen",
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "intermediate_size": 22016,
                "vocab_size": 151936,
            },
            7_721_324_544,
        ),
        # Baichuan2-7B: 7,505,973,248 parameters in the hub's index
        (
            {
                "model_type": "baichuan",
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "intermediate_size": 11008,
                "vocab_size": 125696,
            },
            7_505_973_248,
        ),
        # InternLM2-7B: 7,737,708,544
        (
            {
                "model_type": "internlm2",
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 14336,
                "vocab_size": 92544,
                "bias": False,
            },
            7_737_708_544,
        ),
        # ChatGLM3-6B: 6,243,584,032 in the index, which counts the 32 rotary frequencies
        (
            {
                "model_type": "chatglm",
                "hidden_size": 4096,
                "num_layers": 28,
                "num_attention_heads": 32,
                "multi_query_attention": True,
                "multi_query_group_num": 2,
                "ffn_hidden_size": 13696,
                "kv_channels": 128,
                "padded_vocab_size": 65024,
                "add_bias_linear": False,
                "add_qkv_bias": True,
                "rmsnorm": True,
                "post_layer_norm": True,
            },
            6_243_584_032 - 32,
        ),
    ],
)
def test_models_with_remote_code(config: dict, expected: int) -> None:
    """Families whose code is not in transformers, against their published counts."""
    assert total(config) == expected


class TestCounted:
    """Architectures from a parameter count."""

    def test_declared_counts_hold(self) -> None:
        """Whatever the blocks add up to."""
        model = counted.architecture(
            parameter_count=8_030_261_248, num_hidden_layers=32, hidden_size=4096, num_key_value_heads=8, vocab_size=128256
        )
        parameters = count(a_run(model))
        assert parameters.total == parameters.active == 8_030_261_248
        assert model.layers[0].mlp.intermediate == 14336  # solved from the count
        assert sum(parameters.layer_parameters) == 32 * 218_112_000
        assert model.assumptions

    def test_active(self) -> None:
        """An active count of its own."""
        parameters = count(a_run(counted.architecture(parameter_count=671 * 10**9, active_parameter_count=37 * 10**9)))
        assert (parameters.total, parameters.active) == (671 * 10**9, 37 * 10**9)

    @given(number=st.integers(1, 10**13), layers=st.integers(1, 200), hidden=st.integers(1, 30000))
    def test_any_count_and_shape(self, number: int, layers: int, hidden: int) -> None:
        """Never a negative width or count: a number below the tables' own is refused."""
        try:
            model = counted.architecture(parameter_count=number, num_hidden_layers=layers, hidden_size=hidden)
        except counted.Contradiction:
            assert number <= 2 * 32_000 * hidden
            return
        assert count(a_run(model)).total == number
        assert (count(a_run(model)).non_embedding or 0) > 0
        assert all(matrix.inputs > 0 and matrix.outputs > 0 for layer in model.layers for matrix in layer.matrices)
