"""An encoder-decoder's logits are the decoder's, in training and in evaluation."""

from __future__ import annotations

from service.estimation import memory, parameters
from service.specs.load import run_of


def test_evaluation_has_the_logits_of_the_decoders_tokens() -> None:
    run = run_of(
        {
            "model": {"preset": "t5-large"},
            "data": {"total_tokens": 10**6},
            "sequence_length": 2048,
            "decoder_sequence_length": 128,
            "batch": {"micro_batch_size": 1},
            "evaluation": {"interval_steps": 10, "tokens_per_evaluation": 10_000},
            "software": {"stack": "hf_transformers"},
            "hardware": {"device": "h100-sxm-80gb", "device_count": 1},
        }
    )
    logits = {phase["phase"]: phase["parts"]["logits"] for phase in memory.estimate(run, parameters.count(run)).phases}
    assert 0 < logits["evaluation"] <= logits["forward"]
