"""Where a pretraining run stands against the compute optimum, as items of its quote."""

from __future__ import annotations

from .items import Item
from .run import Run
from .scaling import PROMISES, optimum
from .scaling_life import INFERENCE_FLOPS_PER_PARAMETER


def items(run: Run, active_parameters: float, input_tokens: float | None) -> list[Item]:
    """Tokens per parameter, the over-training ratio by 20 tokens a parameter, and what the model costs to use."""
    use = Item(
        code="scaling.inference_flops_per_token",
        section="compute",
        quantity="flops",
        expected=INFERENCE_FLOPS_PER_PARAMETER * active_parameters,
        formula="2 N a token read or written",
        assumptions=("N active parameters; attention to the context left out (Kaplan et al. 2020, section 2.1)",),
    )
    if run.method.objective != "pretrain" or run.method.kind != "full" or not input_tokens:
        return [use]  # the laws speak of models trained from the start
    best = optimum("chinchilla_20", parameters=active_parameters)
    mixture = any(layer.mlp.experts for layer in run.architecture.layers)
    said = (best.source, PROMISES, *(("no law was fitted on mixtures of experts: N is what a token meets",) if mixture else ()))
    return [
        Item(
            code="scaling.tokens_per_parameter",
            section="compute",
            quantity="ratio",
            expected=input_tokens / active_parameters,
            formula="input tokens / active parameters",
        ),
        Item(
            code="scaling.over_training_ratio",
            section="compute",
            quantity="ratio",
            expected=input_tokens / best.tokens,
            formula="input tokens / (20 x active parameters)",
            assumptions=said,
        ),
        use,
    ]
