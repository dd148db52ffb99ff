"""Tokens, padding and lengths: the seeds' figures, exhaustive enumeration, and simulation-free properties."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimation.run import Data, Method, Run
from service.estimation.token_items import items
from service.estimation.tokens import workload
from service.specs.presets import architecture as preset
from tests.estimation.runs import a_run, oracle_model

HISTOGRAMS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60), st.integers(1, 6)), min_size=1, max_size=6).map(tuple)


def a_text_run(data: Data, *, batch: tuple[int, int, int] = (1, 1, 1), **options: object) -> Run:
    """A run of a small text model."""
    return a_run(oracle_model("gpt2", 2), data, batch=batch, **options)


def test_the_seeds_padded_batch() -> None:
    """Two samples of 800 + 200 padded to 1,024."""
    run = a_text_run(
        Data(histogram=((800, 200, 2),), packing="pad_to_max"), batch=(2, 1, 2), sequence_length=1024, method=Method(objective="sft")
    )
    found = {item.code: item.expected for item in items(run, workload(run))}
    assert found["tokens.input"] == 2000
    assert found["tokens.target"] == 400
    assert found["tokens.padding"] == 48
    assert found["tokens.tensor_positions"] == 2048
    assert workload(run).steps == 1


@pytest.mark.parametrize(("cross", "squares"), [(False, 2 * 1024**2), (True, 2048**2)])
def test_the_seeds_squared_lengths(cross: bool, squares: int) -> None:
    """Two samples of 1,024 in one sequence of 2,048: half the squares where attention stays within a sample."""
    run = a_text_run(Data(histogram=((1024, 0, 2),), packing="packed", cross_sample_attention=cross), sequence_length=2048)
    work = workload(run)
    assert work.squared_lengths == squares
    assert (work.padding, work.sequences, work.steps) == (0, 1, 1)


def test_steps_are_rounded_up() -> None:
    """The contract's own example: 15 T tokens at 16,384 x 8,192 are 111,759 steps."""
    work = workload(a_text_run(Data(total_tokens=15_000_000_000_000), batch=(1, 16, 16384), sequence_length=8192))
    assert work.steps == 111_759
    assert workload(a_text_run(Data(histogram=((10, 0, 101),), packing="none"), batch=(2, 5, 10), sequence_length=32)).steps == 11


def test_truncation_is_counted() -> None:
    """Longer than the sequence: cut from the end, targets first."""
    run = a_text_run(Data(histogram=((80, 60, 3), (10, 10, 1)), packing="pad_to_max"), sequence_length=100, method=Method(objective="sft"))
    work = workload(run)
    assert (work.truncated, work.input_tokens, work.target_tokens) == (3 * 40, 3 * 100 + 20, 3 * 20 + 10)
    kept = workload(a_text_run(Data(histogram=((80, 60, 3),), packing="pad_to_max", truncation=False), sequence_length=100))
    assert (kept.truncated, kept.input_tokens, kept.longest_sequence) == (0, 420, 140)


def test_a_pair_is_two_sequences() -> None:
    """DPO: a batch element has a chosen and a rejected answer."""
    data = Data(histogram=((50, 50, 40),), packing="none")
    sft, dpo = (workload(a_text_run(data, batch=(2, 2, 4), sequence_length=128, method=Method(objective=name))) for name in ("sft", "dpo"))
    assert dpo.steps == sft.steps == 10
    assert dpo.input_tokens == 2 * sft.input_tokens
    assert dpo.sequences == 2 * sft.sequences
    assert dpo.forward_passes == sft.forward_passes == 20
    total = workload(a_text_run(Data(total_tokens=8 * 128 * 5), batch=(2, 2, 4), sequence_length=128, method=Method(objective="dpo")))
    assert total.steps == 5


def test_epochs_and_unique_tokens() -> None:
    """Three epochs read three times what there is once."""
    work = workload(a_text_run(Data(histogram=((600, 400, 10_000),), epochs=3), sequence_length=1000))
    assert (work.input_tokens, work.unique_tokens) == (30_000_000, 10_000_000)
    half = workload(a_text_run(Data(histogram=((600, 400, 10),), epochs=0.5, packing="none"), sequence_length=1000))
    assert (half.input_tokens, half.unique_tokens, half.steps) == (5000, 5000, 5)
    repeated = workload(a_text_run(Data(total_tokens=4000, epochs=4), sequence_length=100))
    assert repeated.unique_tokens == 1000


def test_targets_need_lengths() -> None:
    """Fine-tuning on a bare number of tokens: how many are targets is not known."""
    run = a_text_run(Data(total_tokens=1000), sequence_length=100, method=Method(objective="sft"))
    target = next(item for item in items(run, workload(run)) if item.code == "tokens.target")
    assert target.expected is None
    assert target.reason


def test_no_sequence_length_is_no_guess() -> None:
    """Steps and lengths are unknown, the tokens are not."""
    work = workload(a_text_run(Data(total_tokens=1000)))
    assert (work.steps, work.squared_lengths, work.input_tokens) == (None, None, 1000)
    assert work.reason


def test_encoder_decoder() -> None:
    """T5: the prompt is the encoder's, the target the decoder's."""
    model = oracle_model("t5-base", 2)
    work = workload(a_run(model, Data(histogram=((300, 40, 5),), packing="pad_to_max"), sequence_length=512, decoder_sequence_length=64))
    assert (work.input_tokens, work.tensor_positions) == (1500, 5 * 512)
    assert [(row.length, row.decoder) for row in work.attended] == [(300, 40)]
    plain = workload(a_run(model, Data(total_tokens=5120), sequence_length=512))
    assert plain.longest_decoder_sequence == 512


def test_images() -> None:
    """An image is its positions: 196 patches and a class token."""
    model = preset("vit-l-16")
    assert model is not None
    work = workload(a_run(model, Data(histogram=((197, 0, 1000),)), batch=(10, 1, 10)))
    assert (work.input_tokens, work.padding, work.steps) == (197_000, 0, 100)


def _enumerated(lengths: list[int], micro: int) -> float:
    """Mean positions over all orders of the samples, cut into micro-batches."""
    orders = list(permutations(lengths))
    total = 0
    for order in orders:
        for start in range(0, len(order), micro):
            part = order[start : start + micro]
            total += max(part) * len(part)
    return total / len(orders)


@pytest.mark.parametrize("micro", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("lengths", [[5, 5, 5, 5], [1, 2, 3, 4, 5, 6], [10, 10, 10, 90, 3, 7], [2, 8, 8]])
def test_expected_padding_by_enumeration(lengths: list[int], micro: int) -> None:
    """The closed form equals the average over every order of the samples, a short last micro-batch included."""
    histogram = tuple((length, 0, lengths.count(length)) for length in sorted(set(lengths)))
    work = workload(a_text_run(Data(histogram=histogram, packing="none"), batch=(micro, 1, micro), sequence_length=100))
    assert work.tensor_positions == pytest.approx(_enumerated(lengths, micro), rel=1e-12)
    assert work.padding == pytest.approx(_enumerated(lengths, micro) - sum(lengths), rel=1e-9, abs=1e-9)


@given(
    histogram=HISTOGRAMS,
    micro=st.integers(1, 8),
    packing=st.sampled_from(("none", "pad_to_max", "packed")),
    limit=st.integers(8, 130),
    epochs=st.sampled_from((1, 2, 0.5, 1.7)),
)
def test_sums(histogram: tuple, micro: int, packing: str, limit: int, epochs: float) -> None:
    """Positions are tokens and padding; squares lie between the tokens' and the positions'."""
    data = Data(histogram=histogram, packing=packing, epochs=epochs)
    work = workload(a_text_run(data, batch=(micro, 1, micro), sequence_length=limit))
    assert work.tensor_positions == pytest.approx(work.input_tokens + work.padding, rel=1e-12)
    assert work.padding >= -1e-6
    assert work.input_tokens + work.truncated == pytest.approx(sum((p + t) * n for p, t, n in histogram) * epochs, rel=1e-12)
    assert work.target_tokens <= work.input_tokens
    assert work.unique_tokens <= work.input_tokens
    assert work.squared_lengths >= work.input_tokens * 0.999
    assert work.longest_sequence <= max(limit, 1)
    if packing != "packed":
        assert work.squared_lengths <= sum(row.count * row.length**2 for row in work.tensor) * (1 + 1e-9)


@given(histogram=HISTOGRAMS)
def test_larger_micro_batches_pad_more(histogram: tuple) -> None:
    """One a batch pads nothing; all in one batch pads to the longest sample."""
    number = sum(row[2] for row in histogram)
    sizes = sorted({1, 2, number})
    padding = [
        workload(a_text_run(Data(histogram=histogram, packing="none"), batch=(size, 1, size), sequence_length=500)).padding
        for size in sizes
    ]
    assert padding[0] == 0
    longest = max(p + t for p, t, _ in histogram)
    assert padding[-1] == pytest.approx(number * longest - sum((p + t) * n for p, t, n in histogram))


def test_arrays_of_batches() -> None:
    """A search's arrays give what single runs give."""
    data = Data(histogram=((10, 5, 9), (40, 20, 6)), packing="none")
    micros = np.array([1, 2, 4])
    work = workload(a_run(oracle_model("gpt2", 2), data, batch=(micros, 1, np.array([4, 4, 8])), sequence_length=64))
    for index, micro in enumerate((1, 2, 4)):
        alone = workload(a_text_run(data, batch=(micro, 1, (4, 4, 8)[index]), sequence_length=64))
        assert work.tensor_positions[index] == alone.tensor_positions
        assert work.steps[index] == alone.steps
