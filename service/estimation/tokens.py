"""Tokens: what is read, what is learnt from, what is padding, and the lengths that attention works on.

Input tokens are the samples' own; target tokens those that the loss is taken on; tensor positions what the kernels see,
padding included. The three give three throughputs, which are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from .items import Item, unknown
from .numeric import Number, ceil_divide, is_array, one
from .run import Run

NO_LENGTH = "sequence_length is not given"
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
    common: dict[str, Any] = {
        "sequences_per_step": per_step,
        "input_tokens": tokens,
        "target_tokens": tokens if pretraining else None,
        "target_reason": None if pretraining else "how many of the tokens are targets needs the samples' prompt and target lengths",
        "padding": 0,
        "tensor_positions": tokens,
        "unique_tokens": unique,
        "truncated": 0,
    }
    if length is None:
        return Workload(
            **common,
            steps=None,
            sequences=None,
            squared_lengths=None,
            longest_sequence=None,
            longest_decoder_sequence=None,
            attended=(),
            tensor=(),
            forward_passes=None,
            reason=NO_LENGTH,
        )
    decoder = (run.decoder_sequence_length or length) if run.architecture.encoder_decoder else 0
    full, rest = divmod(tokens, length)
    rows = [Rows(length, full, decoder)] if full else []
    if rest:
        # the decoder's share of a last, shorter sequence
        rows.append(Rows(rest, 1, decoder * rest // length))
    sequences = full + (1 if rest else 0)
    steps = ceil_divide(tokens, per_step * length)
    return Workload(
        **common,
        steps=steps,
        sequences=sequences,
        squared_lengths=exact(_total(rows, 2)),
        longest_sequence=length,
        longest_decoder_sequence=decoder or None,
        attended=tuple(rows),
        tensor=tuple(rows),
        forward_passes=sequences / (run.batch.micro_batch_size * run.method.sequences_per_element),
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
    longest = max((row.length for row in samples.rows), default=0)
    packing = "pad_to_max" if run.architecture.image_positions else run.data.packing
    notes: list[str] = []
    reason = None
    attended: tuple[Rows, ...] = rows
    tensor: tuple[Rows, ...] | None
    elements: Number = _times(samples.count, epochs)
    if packing == "packed":
        tensor, attended, elements, longest, reason = _packed(run, inputs, rows, longest, notes)
    elif packing == "pad_to_max":
        tensor = _padded_to(run.sequence_length or longest, rows)
        longest = max((row.length for row in tensor), default=0)
    else:
        tensor = _padded_to_longest(run, samples, epochs)
        notes.append(
            f"micro-batches of {run.batch.micro_batch_size} drawn without regard to length; each is padded to its longest"
            if not is_array(run.batch.micro_batch_size)
            else "micro-batches drawn without regard to length; each is padded to its longest"
        )
    positions = None if tensor is None else _total(tensor, 1)
    sequences = None if tensor is None else _total(tensor, 0)
    steps = None if tensor is None else _steps(elements, run.batch.global_batch_size)
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
        squared_lengths=None if reason is not None and run.data.cross_sample_attention else exact(_total(attended, 2)),
        longest_sequence=longest or None,
        longest_decoder_sequence=max((row.decoder for row in rows), default=0) or None,
        attended=attended,
        tensor=tensor or (),
        forward_passes=None if sequences is None else sequences / (run.batch.micro_batch_size * pairs),
        reason=reason,
        assumptions=tuple(notes),
    )


def _steps(elements: Number, global_batch: Number) -> Number:
    """Steps of the whole run, rounded up."""
    if isinstance(elements, float) and not is_array(global_batch):
        quotient = elements / global_batch
        return int(quotient) + (1 if quotient > int(quotient) else 0)
    return ceil_divide(elements, global_batch)


def _packed(
    run: Run, inputs: float, rows: tuple[Rows, ...], longest: int, notes: list[str]
) -> tuple[tuple[Rows, ...] | None, tuple[Rows, ...], Number, int, str | None]:
    """Samples joined to full sequences: (tensor rows, attended rows, batch elements, longest, reason)."""
    length = run.sequence_length
    if length is None:
        return None, rows, 0, longest, NO_LENGTH
    full = int(inputs // length)
    rest = exact(inputs - full * length)
    tensor = [Rows(length, full, _decoder_share(run, length))] if full else []
    if rest:
        short = int(rest) + (rest > int(rest))
        tensor.append(Rows(short, rest / short if rest != short else 1, _decoder_share(run, short)))
    notes.append("samples are joined to full sequences; the last one may be short, so that nothing is padded")
    elements: Number = ceil_divide(full + (1 if rest else 0), run.method.sequences_per_element)
    attended = tuple(tensor) if run.data.cross_sample_attention else rows
    if not run.data.cross_sample_attention:
        notes.append("attention stays within each sample, a sample cut by the end of a sequence counted whole")
    return tuple(tensor), attended, elements, length, None


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


# -- items -------------------------------------------------------------------------------------------------------------
def items(run: Run, work: Workload) -> list[Item]:
    """The token items of a quote."""
    read = "data.total_tokens" if run.data.histogram is None else "sum of samples x (prompt + target) x epochs, less what is cut"
    missing = work.reason or ""
    result: list[Item] = []

    def item(name: str, value: Number | None, formula: str, reason: str = missing, notes: tuple[str, ...] = ()) -> None:
        code = f"tokens.{name}"
        if value is None:
            result.append(unknown(code, "tokens", "tokens", reason, formula=formula))
        else:
            basis: Any = "given" if name == "input" and run.data.histogram is None else "formula"
            result.append(
                Item(code=code, section="tokens", quantity="tokens", expected=one(value), formula=formula, basis=basis, assumptions=notes)
            )

    item("input", work.input_tokens, read)
    item("target", work.target_tokens, "tokens that the loss is taken on", work.target_reason or missing)
    item("padding", work.padding, "tokens.tensor_positions - tokens.input", missing, work.assumptions)
    item("tensor_positions", work.tensor_positions, "sum over micro-batches of rows x padded length", missing, work.assumptions)
    item("unique", work.unique_tokens, "distinct tokens read at least once: tokens.input / epochs unless unique_tokens is given")
    item("truncated", work.truncated, "sum of samples x max(0, length - sequence_length) x epochs")
    item("squared_lengths", work.squared_lengths, "sum of squared attended lengths", missing, work.assumptions)
    return result
