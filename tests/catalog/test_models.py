"""Model presets: each one's count is the published one, read by the same reader as a caller's config."""

from __future__ import annotations

import pytest

from service.catalog import models
from service.estimation.parameters import count
from service.specs.presets import architecture as preset
from tests.estimation.runs import a_run

# Where the publisher's figure is not the number of parameters, and by how much it differs.
NOT_PARAMETERS = {
    "falcon-180b": 65024 * 14848,  # the hub's index holds the tied head a second time
    "llama-2-7b": 32 * 64,  # rotary frequencies, buffers of the checkpoint
    "llama-2-13b": 40 * 64,
    "llama-2-70b": 80 * 64,
}


def test_at_least_eighty_presets_with_sources() -> None:
    """Each says where its shape was read and when."""
    everything = models.presets()
    assert len(everything) >= 80
    assert all(entry.source and entry.date for entry in everything)
    assert all(name == name.lower() for name in models.names())


def test_every_published_total() -> None:
    """Equal to the unit, but for the exceptions above."""
    compared = 0
    for entry in models.presets():
        if entry.published_total is not None:
            model = preset(entry.name)
            assert model is not None
            assert count(a_run(model)).total + NOT_PARAMETERS.get(entry.name, 0) == entry.published_total, entry.name
            compared += 1
    print(f"{compared} published totals, {len(NOT_PARAMETERS)} explained differences")
    assert compared >= 49


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-72b", 72.7),
        ("llama-4-scout", 107.8),
        ("llama-4-maverick", 400.7),
        ("gpt-oss-120b", 116.8),
        ("deepseek-v2", 235.7),
        ("mixtral-8x22b", 140.6),
        ("qwen3-235b-a22b", 235.1),
        ("t5-11b", 11.3),
        ("gpt-neox-20b", 20.6),
        ("llama-65b", 65.3),
    ],
)
def test_rounded_totals(name: str, billions: float) -> None:
    """Models whose publishers round."""
    model = preset(name)
    assert model is not None
    assert count(a_run(model)).total / 1e9 == pytest.approx(billions, abs=0.06)


def test_names_and_aliases() -> None:
    """Case does not matter; hub ids are known; an alias never hides another preset."""
    for name in ("llama-3.1-8b", "qwen2.5-7b", "mixtral-8x7b", "gpt2-xl", "deepseek-v3", "llama-3.1-405b", "llama-3.1-70b", "gemma-2-9b"):
        assert models.preset(name) is not None
    assert models.preset("Llama-3.1-8B") is models.preset("meta-llama/llama-3.1-8b")
    aliases = [alias for entry in models.presets() for alias in entry.aliases]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(models.names())
    assert models.preset("llama-9") is None
    assert preset("llama-9") is None


def test_a_preset_is_read_once() -> None:
    """The same object each time: sums over it are remembered by identity."""
    assert preset("llama-3.1-8b") is preset("llama-3.1-8b")
