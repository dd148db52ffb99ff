"""Tokens: what is read, what is learnt from, what is padding, and the lengths that attention works on.

Input tokens are the samples' own; target tokens those that the loss is taken on; tensor positions what the kernels see,
padding included. The three give three throughputs, which are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from .numeric import Number, ceil_divide, is_array
from .run import Run

NO_LENGTH = "sequence_length is not given"
NO_TARGETS = "how many of the tokens are targets needs the samples' prompt and target lengths"
JOINED = "samples are joined to full sequences; the last one may be short, so that nothing is padded"
WITHIN_SAMPLES = "attention stays within each sample, a sample cut by the end of a sequence counted whole"
MOST_EXACT_INTEGER = 2**53


@dataclass(frozen=True, slots=True)
class Rows:
    """``count`` sequences of one length; ``decoder`` is the decoder's length where the model has one."""

    length: int
    count: Number
    decoder: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a run reads. None where the spec does not allow it (``reason`` says why)."""

    steps: Number | None
    sequences: Number | None  # of the whole run; a DPO pair is two
    sequences_per_step: Number
    input_tokens: Number | None
    target_tokens: Number | None
    padding: Number | None
    tensor_positions: Number | None
    unique_tokens: Number | None
    truncated: Number | None
    squared_lengths: Number | None
    longest_sequence: int | None  # positions of the longest tensor row
    longest_decoder_sequence: int | None
    attended: tuple[Rows, ...]  # the lengths within which tokens attend to each other
    tensor: tuple[Rows, ...]  # the rows that the kernels see
    forward_passes: Number | None  # of one micro-batch on one data-parallel rank
    reason: str | None = None  # why something is None
    assumptions: tuple[str, ...] = ()
    target_reason: str | None = None


@overload
def exact(value: float) -> float: ...
@overload
def exact(value: Number) -> Number: ...
def exact(value: Number) -> Number:
    """An integer where it is one that a double holds exactly, else a double."""
    if isinstance(value, int):
        return value if -MOST_EXACT_INTEGER <= value <= MOST_EXACT_INTEGER else float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT_INTEGER:
        return int(value)
    return value


@overload
def _times(count: float, epochs: float) -> float: ...
@overload
def _times(count: Number, epochs: float) -> Number: ...
def _times(count: Number, epochs: float) -> Number:
    """``count`` read ``epochs`` times: whole where epochs are."""
    return count * int(epochs) if epochs == int(epochs) else count * epochs


def _total(rows: Iterable[Rows], power: int) -> Number:
    total: Number = 0
    for row in rows:
        total = total + row.count * row.length**power
    return total


def workload(run: Run) -> Workload:
    """All token counts of a run."""
    return _from_total(run) if run.data.histogram is None else _from_histogram(run)


# -- a number of tokens ------------------------------------------------------------------------------------------------
def _from_total(run: Run) -> Workload:
    tokens = run.data.total_tokens
    if tokens is None:
        raise ValueError("a run has either total_tokens or a histogram")
    length = run.architecture.image_positions or run.sequence_length
    per_step = run.batch.global_batch_size * run.method.sequences_per_element
    pretraining = run.method.objective == "pretrain"
    epochs = run.data.epochs
    unique = run.data.unique_tokens if run.data.unique_tokens is not None else exact(tokens / epochs if epochs > 1 else tokens)
    unsized = Workload(
        steps=None,
        sequences=None,
        sequences_per_step=per_step,
        input_tokens=tokens,
        target_tokens=tokens if pretraining else None,
        target_reason=None if pretraining else NO_TARGETS,
        padding=0,
        tensor_positions=tokens,
        unique_tokens=unique,
        truncated=0,
        squared_lengths=None,
        longest_sequence=None,
        longest_decoder_sequence=None,
        attended=(),
        tensor=(),
        forward_passes=None,
        reason=NO_LENGTH,
    )
    if length is None:
        return unsized
    decoder = (run.decoder_sequence_length or length) if run.architecture.encoder_decoder else 0
    full, rest = divmod(tokens, length)
    rows = [Rows(length, full, decoder)] if full else []
    if rest:
        # the decoder's share of a last, shorter sequence
        rows.append(Rows(rest, 1, decoder * rest // length))
    sequences = full + (1 if rest else 0)
    return replace(
        unsized,
        steps=ceil_divide(tokens, per_step * length),
        sequences=sequences,
        squared_lengths=exact(_total(rows, 2)),
        longest_sequence=length,
        longest_decoder_sequence=decoder or None,
        attended=tuple(rows),
        tensor=tuple(rows),
        forward_passes=sequences / (run.batch.micro_batch_size * run.method.sequences_per_element),
        reason=None,
        assumptions=(
            f"every sequence is full ({length} positions): total_tokens gives no sample lengths, so attention spans the whole sequence",
        ),
    )


# -- samples with lengths ----------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Samples:
    """Samples after truncation."""

    rows: list[Rows]  # by length, one epoch, sequences (a pair is two)
    input_tokens: int
    target_tokens: int
    truncated: int
    count: int  # batch elements


def _cut(run: Run) -> _Samples:
    """The samples as they enter the batch, one epoch."""
    limit = run.sequence_length if run.data.truncation else None
    pairs = run.method.sequences_per_element
    two_stacks = run.architecture.encoder_decoder
    decoder_limit = (run.decoder_sequence_length or run.sequence_length) if run.data.truncation else None
    by_length: dict[tuple[int, int], int] = {}
    inputs = targets = truncated = elements = 0
    for prompt, target, samples in run.data.histogram or ():
        number = samples * pairs
        elements += samples
        if two_stacks and target:
            length, decoder = prompt, target
            kept, learnt = _least(length, limit), _least(decoder, decoder_limit)
            truncated += (length - kept + decoder - learnt) * number
        else:
            length = prompt + target
            kept = _least(length, limit)
            truncated += (length - kept) * number
            # Targets that the caller named are the targets; a document without any is learnt from whole in pretraining.
            learnt = kept if run.method.objective == "pretrain" and not target else max(0, kept - prompt)
            decoder = (run.decoder_sequence_length or kept) if two_stacks else 0
        inputs += kept * number
        targets += learnt * number
        key = (kept, learnt if two_stacks and target else decoder)
        by_length[key] = by_length.get(key, 0) + number
    rows = [Rows(length, count, decoder) for (length, decoder), count in sorted(by_length.items())]
    return _Samples(rows, inputs, targets, truncated, elements)


def _least(length: int, limit: int | None) -> int:
    return length if limit is None else min(length, limit)


def _from_histogram(run: Run) -> Workload:
    samples = _cut(run)
    epochs = run.data.epochs
    pairs = run.method.sequences_per_element
    inputs = _times(samples.input_tokens, epochs)
    rows = tuple(Rows(row.length, _times(row.count, epochs), row.decoder) for row in samples.rows)
    seen = _seen(run, samples, rows, inputs)
    tensor, reason = seen.tensor, seen.reason
    positions = None if tensor is None else _total(tensor, 1)
    sequences = None if tensor is None else _total(tensor, 0)
    steps = None if tensor is None else _steps(seen.elements, run.batch.global_batch_size)
    unique = run.data.unique_tokens if run.data.unique_tokens is not None else min(samples.input_tokens, exact(inputs))
    return Workload(
        steps=steps,
        sequences=sequences,
        sequences_per_step=run.batch.global_batch_size * pairs,
        input_tokens=exact(inputs),
        target_tokens=exact(_times(samples.target_tokens, epochs)),
        padding=None if positions is None else exact(positions - inputs),
        tensor_positions=None if positions is None else exact(positions),
        unique_tokens=unique,
        truncated=exact(_times(samples.truncated, epochs)),
        squared_lengths=None if reason is not None and run.data.cross_sample_attention else exact(_total(seen.attended, 2)),
        longest_sequence=seen.longest or None,
        longest_decoder_sequence=max((row.decoder for row in rows), default=0) or None,
        attended=seen.attended,
        tensor=tensor or (),
        forward_passes=None if sequences is None else sequences / (run.batch.micro_batch_size * pairs),
        reason=reason,
        assumptions=seen.words,
    )


def _steps(elements: Number, global_batch: Number) -> Number:
    """Steps of the whole run, rounded up."""
    if isinstance(elements, float) and not is_array(global_batch):
        quotient = elements / global_batch
        return int(quotient) + (1 if quotient > int(quotient) else 0)
    return ceil_divide(elements, global_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The samples as kernels see them; no tensor rows where ``reason`` says why."""

    tensor: tuple[Rows, ...] | None
    attended: tuple[Rows, ...]
    elements: Number  # of batches
    longest: int
    words: tuple[str, ...] = ()
    reason: str | None = None


def _seen(run: Run, samples: _Samples, rows: tuple[Rows, ...], inputs: float) -> _Seen:
    """Samples joined, padded to one length, or padded to the longest of their micro-batch."""
    elements, longest = _times(samples.count, run.data.epochs), max((row.length for row in rows), default=0)
    packing = "pad_to_max" if run.architecture.image_positions else run.data.packing
    if packing == "packed":
        return _packed(run, inputs, rows, longest)
    if packing == "pad_to_max":
        padded = _padded_to(run.sequence_length or longest, rows)
        return _Seen(tensor=padded, attended=rows, elements=elements, longest=max((row.length for row in padded), default=0))
    micro = run.batch.micro_batch_size
    drawn = "micro-batches drawn" if is_array(micro) else f"micro-batches of {micro} drawn"
    words = (f"{drawn} without regard to length; each is padded to its longest",)
    padded = _padded_to_longest(run, samples, run.data.epochs)
    return _Seen(tensor=padded, attended=rows, elements=elements, longest=longest, words=words)


def _packed(run: Run, inputs: float, rows: tuple[Rows, ...], longest: int) -> _Seen:
    """Samples joined to full sequences."""
    length = run.sequence_length
    if length is None:
        return _Seen(tensor=None, attended=rows, elements=0, longest=longest, reason=NO_LENGTH)
    full = int(inputs // length)
    rest = exact(inputs - full * length)
    tensor = [Rows(length, full, _decoder_share(run, length))] if full else []
    if rest:
        short = int(rest) + (rest > int(rest))
        tensor.append(Rows(short, rest / short if rest != short else 1, _decoder_share(run, short)))
    elements = ceil_divide(full + (1 if rest else 0), run.method.sequences_per_element)
    joined = tuple(tensor)
    if run.data.cross_sample_attention:
        return _Seen(tensor=joined, attended=joined, elements=elements, longest=length, words=(JOINED,))
    return _Seen(tensor=joined, attended=rows, elements=elements, longest=length, words=(JOINED, WITHIN_SAMPLES))


def _decoder_share(run: Run, length: int) -> int:
    if not run.architecture.encoder_decoder:
        return 0
    decoder = run.decoder_sequence_length or run.sequence_length or length
    return decoder if run.sequence_length is None else decoder * length // run.sequence_length


def _padded_to(length: int, rows: tuple[Rows, ...]) -> tuple[Rows, ...]:
    """Every row at that length (one that is longer and not cut keeps its own)."""
    decoder = max((row.decoder for row in rows), default=0)
    return tuple(Rows(max(length, row.length), row.count, decoder) for row in rows)


def _padded_to_longest(run: Run, samples: _Samples, epochs: float) -> tuple[Rows, ...]:
    """Rows at the length of the longest of their micro-batch, as an expectation over random micro-batches.

    m of N samples drawn without replacement have their maximum at most l with probability C(n, m) / C(N, m), n being the
    samples of length at most l (order statistics of a finite population). The last micro-batch of an epoch may be smaller.
    """
    micro = run.batch.micro_batch_size
    number = samples.count
    rows = samples.rows
    pairs = run.method.sequences_per_element
    if not rows or not number:
        return ()
    below = 0
    cumulative = []
    for row in rows:
        below += int(row.count) // pairs
        cumulative.append(below)
    counts: list[Number]
    if is_array(micro):
        sizes = np.unique(micro)
        tables = {int(size): _expected_rows(cumulative, number, int(size)) for size in sizes}
        counts = [np.select([micro == size for size in tables], [table[k] for table in tables.values()]) for k in range(len(rows))]
    else:
        counts = list(_expected_rows(cumulative, number, int(micro)))
    decoder = max(row.decoder for row in rows)
    return tuple(Rows(row.length, _read(count, epochs) * pairs, decoder) for row, count in zip(rows, counts, strict=True))


def _read(count: Number, epochs: float) -> Number:
    return exact(count * epochs) if not is_array(count) else count * epochs


def _expected_rows(cumulative: list[int], number: int, micro: int) -> list[float]:
    """Expected rows whose micro-batch's longest sample lies in each length class."""
    if micro == 1:
        return [float(high - low) for low, high in zip([0, *cumulative], cumulative, strict=False)]
    full, rest = divmod(number, micro)
    result = [0.0] * len(cumulative)
    for size, batches in ((micro, full), (rest, 1)):
        if size and batches:
            shares = [_all_at_most(below, number, size) for below in cumulative]
            for k, share in enumerate(shares):
                result[k] += batches * size * (share - (shares[k - 1] if k else 0.0))
    return result


def _all_at_most(below: int, number: int, size: int) -> float:
    """The probability that ``size`` of ``number`` samples, drawn without replacement, are all among the ``below``."""
    if below >= number:
        return 1.0
    if below < size:
        return 0.0
    share = 1.0
    for drawn in range(size):
        share *= (below - drawn) / (number - drawn)
        if share < 1e-18:
            return 0.0
    return share
