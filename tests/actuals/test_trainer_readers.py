"""Files and logs of trainers: what they measure, and what only looks as if."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.actuals.measurement import Attempt, Hints, Reading, Unreadable, Value
from service.actuals.readers import FORMATS, READERS, read

CASES = Path(__file__).parents[1] / "cases"
LFS = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
GIB, MIB = 2**30, 2**20


def only(reading: Reading) -> Attempt:
    """The single attempt."""
    (attempt,) = reading.attempts
    return attempt


def by_code(attempt: Attempt) -> dict[str, Value]:
    """Values of codes that occur once."""
    return {value.code: value for value in attempt.values}


def ignored(reading: Reading) -> dict[str, str]:
    """What was not taken, by pointer."""
    return {note.pointer: note.detail for note in reading.ignored}


# --- Hugging Face -----------------------------------------------------------------------------------------------------

# Keys and magnitudes of a public run with skip_memory_metrics=False (a T5 fine-tuned on a summary corpus).
MEMORY_METRICS = {
    "before_init_mem_gpu": 0,
    "init_mem_gpu_alloc_delta": 1222242816,
    "init_mem_gpu_peaked_delta": 0,
    "train_mem_gpu_alloc_delta": 4910897664,
    "train_mem_gpu_peaked_delta": 23331969536,
}
RESULTS = {"epoch": 3.0, "train_runtime": 155.2034, "train_samples": 14732, "train_samples_per_second": 284.76, "train_loss": 1.4}


def test_results() -> None:
    """`train_runtime` is seconds; evaluations inside are not known from this file."""
    attempt = only(read("hf_all_results", RESULTS))
    (training,) = attempt.values
    assert (training.code, training.value, training.flags) == ("time.training", 155.2034, ("includes_overheads",))
    assert attempt.outcome == "completed" and attempt.covers is not None and "training" in attempt.covers
    assert only(read("hf_all_results", json.dumps(RESULTS))) == attempt, "text or object"


@pytest.mark.parametrize("total_flos", [2.077e18, 0.0])
def test_total_flos_is_no_measurement(total_flos: float) -> None:
    """6N for every method, LoRA too, or 0."""
    reading = read("hf_all_results", {**RESULTS, "total_flos": total_flos})
    assert not any(value.code.startswith("compute.") for value in only(reading).values)
    assert "not a measurement" in ignored(reading)["/total_flos"]


def test_token_counter() -> None:
    """0 says that it was off; otherwise it may count padding, so it is positions and not input tokens."""
    off = read("hf_all_results", {**RESULTS, "num_input_tokens_seen": 0})
    assert "counter is off" in ignored(off)["/num_input_tokens_seen"]
    counted = by_code(only(read("hf_all_results", {**RESULTS, "num_input_tokens_seen": 24690000})))["tokens.tensor_positions"]
    assert (counted.value, counted.flags) == (24690000, ("padding_unknown",))


def test_memory_metrics_are_differences() -> None:
    """A peak needs all four; three are no peak."""
    peak = by_code(only(read("hf_all_results", {**RESULTS, **MEMORY_METRICS})))["memory.peak_allocated"]
    assert (peak.value, peak.scope) == (1222242816 + 4910897664 + 23331969536, "rank0")
    some = {**RESULTS, "train_mem_gpu_alloc_delta": 4910897664, "train_mem_gpu_peaked_delta": 23331969536}
    reading = read("hf_all_results", some)
    assert "memory.peak_allocated" not in by_code(only(reading))
    assert "not a peak" in ignored(reading)["/train_mem_gpu_peaked_delta"]


STATE: dict[str, Any] = {
    "epoch": 1.0,
    "global_step": 300,
    "max_steps": 300,
    "total_flos": 2.27e17,
    "train_batch_size": 4,
    "log_history": [
        {"epoch": 0.5, "loss": 1.2, "step": 150},
        {"epoch": 0.5, "eval_loss": 1.1, "eval_runtime": 20.5, "step": 150},
        {"epoch": 1.0, "eval_loss": 1.0, "eval_runtime": 21.5, "step": 300},
        {"epoch": 1.0, "step": 300, "total_flos": 2.27e17, "train_loss": 1.1, "train_runtime": 642.0, "train_samples_per_second": 7.5},
        {"epoch": 1.0, "eval_loss": 1.0, "eval_runtime": 22.0, "step": 300},
    ],
}


def test_trainer_state() -> None:
    """Evaluations inside training are taken out of its time; the one after it is not in it."""
    attempt = only(read("hf_trainer_state", STATE))
    values = by_code(attempt)
    assert values["time.training"].value == pytest.approx(600.0) and values["time.evaluation"].value == pytest.approx(42.0)
    assert (attempt.steps_completed, attempt.outcome) == (300, "completed")


def test_second_session() -> None:
    """A resumed run: the closing row of the last session speaks, without the evaluation that followed the one before."""
    history = [*STATE["log_history"], {"eval_runtime": 10.0, "step": 450}, {"train_runtime": 310.0, "step": 600}]
    values = by_code(only(read("hf_trainer_state", {**STATE, "global_step": 600, "max_steps": 600, "log_history": history})))
    assert values["time.evaluation"].value == pytest.approx(10.0)
    assert values["time.training"].value == pytest.approx(300.0)


def test_checkpoint_of_an_unfinished_run() -> None:
    """No closing row, no times."""
    with pytest.raises(Unreadable, match="no train_runtime"):
        read("hf_trainer_state", {**STATE, "global_step": 150, "log_history": STATE["log_history"][:2]})


def test_nan_losses_do_not_matter() -> None:
    """The Trainer writes NaN, which is not JSON; as text it is read all the same."""
    text = json.dumps(STATE).replace("1.2", "NaN", 1)
    assert only(read("hf_trainer_state", text)) == only(read("hf_trainer_state", STATE))


@pytest.mark.parametrize("format_name", FORMATS)
def test_lfs_pointer(format_name: Any) -> None:
    """A Git LFS pointer is refused for what it is, whatever the format."""
    with pytest.raises(Unreadable, match="Git LFS pointer"):
        read(format_name, LFS)


@pytest.mark.parametrize(
    "document", [None, 5, [], {}, "", "nonsense", [1, 2], {"jobs": None}, {"a": {"b": []}}, True, [[]], [None], {"body": "x"}]
)
@pytest.mark.parametrize("format_name", FORMATS)
def test_nonsense_is_refused_not_crashed_on(format_name: Any, document: Any) -> None:
    """Anything else is refused with a reason."""
    with pytest.raises(Unreadable):
        READERS[format_name](document, Hints())


SOUND: dict[str, Any] = {}  # format -> a document that is read; filled below


def mutated(data: st.DataObject, document: Any) -> Any:
    """The document with a few of its parts replaced by anything."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        node = document
        while isinstance(node, dict | list) and node:
            key = data.draw(st.sampled_from(sorted(node, key=str) if isinstance(node, dict) else range(len(node))))
            if isinstance(node[key], dict | list) and data.draw(st.booleans()):
                node = node[key]
                continue
            odd = st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
            node[key] = data.draw(odd | st.lists(odd, max_size=2) | st.dictionaries(st.text(max_size=3), odd, max_size=2))
            break
    return document


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_documents_are_read_or_refused(data: st.DataObject) -> None:
    """Whatever stands in a document, the reader gives finite values or a reason."""
    format_name = data.draw(st.sampled_from(sorted(SOUND)))
    try:
        reading = read(format_name, mutated(data, SOUND[format_name]))  # type: ignore[arg-type]
    except Unreadable:
        return
    assert all(math.isfinite(value.value) for attempt in reading.attempts for value in attempt.values)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_logs_are_read_or_refused(data: st.DataObject) -> None:
    """The same of text: pieces of lines, numbers of any length."""
    format_name = data.draw(st.sampled_from(["megatron_log", "torchtitan_log", "torch_memory", "sacct_parsable"]))
    number = st.sampled_from(["1", "1.5", "1.2.3", ",", "1,000", "9" * 5000, "-1", "inf", "1e5", ""])
    line = st.builds(
        lambda template, a, b, c: template.format(a, b, c),
        st.sampled_from(
            [
                "iteration {}/ {} | elapsed time per iteration (ms): {} | global batch size: 4 |",
                "[Rank {}] memory (MB) | max allocated: {} | max reserved: {} |",
                "step: {} memory: {}GiB(1%) tps: {}",
                "| Allocated memory | {} B | {} MiB | {} |",
                "JobID|State|Elapsed|AllocTRES|NTasks|TRESUsageInMax\n{}|COMPLETED|{}:{}:00|gres/gpu=2||",
                "1.0|COMPLETED|{}||{}|gres/gpumem={}M",
                "[before the start of training step] {} {} {}",
            ]
        ),
        number,
        number,
        number,
    )
    text = "\n".join(data.draw(st.lists(line, min_size=1, max_size=6)))
    try:
        reading = read(format_name, text, Hints(device_count=2))  # type: ignore[arg-type]
    except Unreadable:
        return
    assert all(value.value >= 0 for attempt in reading.attempts for value in attempt.values)


# --- Megatron-LM ------------------------------------------------------------------------------------------------------


def megatron_line(step: int, milliseconds: float, *, total: int = 60, batch: int = 16, extra: str = "") -> str:
    """A line in the format of Megatron-LM's training log."""
    return (
        f" [2025-04-13 23:41:{step % 60:02d}] iteration {step:8d}/{total:8d} | consumed samples: {step * batch:12d} |"
        f" elapsed time per iteration (ms): {milliseconds:.1f} |{extra} global batch size: {batch:5d} | lm loss: 7.4E+00 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


MEMORY_LINE = (
    "[Rank {rank}] (after 10 iterations) memory (MB) | allocated: 1464.33154296875 | max allocated: {allocated} | reserved: 1576.0 |"
    " max reserved: {reserved}"
)


def test_megatron_drops_the_first_interval() -> None:
    """The first interval holds a first iteration of thirty times the usual."""
    log = "\n".join(megatron_line(step, 1147.6 if step == 10 else 100 + step / 10) for step in range(10, 61, 10))
    attempt = only(read("megatron_log", log))
    step = by_code(attempt)["time.step"]
    assert step.value == pytest.approx(0.104) and step.excludes == ("first_step",) and step.repeats == 5
    assert step.spread == pytest.approx((106 - 102) / 104)
    assert (attempt.outcome, attempt.steps_completed) == ("completed", 60)


def test_megatron_memory_is_binary_megabytes() -> None:
    """`MB` is 2**20 bytes; of several ranks the largest."""
    lines = [
        megatron_line(10, 100.0),
        MEMORY_LINE.format(rank=0, allocated="1464.5", reserved="1576.0"),
        MEMORY_LINE.format(rank=8, allocated="2000.0", reserved="2100.0"),
    ]
    values = by_code(only(read("megatron_log", "\n".join(lines))))
    assert (values["memory.peak_allocated"].value, values["memory.peak_allocated"].scope) == (2000 * MIB, "max")
    assert values["memory.peak_reserved"].value == 2100 * MIB
    assert values["time.step"].flags == ("first_step_included", "outcome_inferred") and values["time.step"].excludes == ()


def test_megatron_restarts_are_attempts() -> None:
    """Two sessions in one file: each loses its own first interval."""
    first = [megatron_line(step, 5000 if step == 10 else 100.0) for step in (10, 20, 30, 40)]
    second = [megatron_line(step, 6000 if step == 30 else 200.0) for step in (30, 40, 50, 60)]
    attempts = read("megatron_log", "\n".join([*first, *second])).attempts
    assert [(a.attempt, a.outcome, a.steps_completed, by_code(a)["time.step"].value) for a in attempts] == [
        (1, "failed", 40, pytest.approx(0.1)),
        (2, "completed", 60, pytest.approx(0.2)),
    ]


def test_megatron_ramp_up() -> None:
    """Iterations at a smaller batch are shorter and are left out."""
    lines = [megatron_line(s, 50.0, batch=8) for s in (10, 20)] + [megatron_line(s, 100.0) for s in (30, 40, 50, 60)]
    reading = read("megatron_log", "\n".join(lines))
    assert by_code(only(reading))["time.step"].value == pytest.approx(0.1)
    assert any("ramp-up" in note.detail for note in reading.ignored)


def test_megatron_formulas_are_not_measurements() -> None:
    """TFLOP/s per GPU follows from a formula."""
    line = megatron_line(10, 100.0, extra=" throughput per GPU (TFLOP/s/GPU): 412.3 |")
    reading = read("megatron_log", "\n".join([line, megatron_line(20, 100.0)]))
    assert not any(v.code.startswith(("efficiency", "compute")) for v in only(reading).values)
    assert any("formula" in note.detail for note in reading.ignored)


# --- torchtitan -------------------------------------------------------------------------------------------------------


def titan_line(step: int, memory: float, tps: str, rank: int = 0) -> str:
    """A line in torchtitan's format, with its colours."""
    return (
        f"[rank{rank}]:[titan] 2025-01-01 00:00:{step:02d},000 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss:  7.1234 "
        f" \x1b[38;5;208mgrad_norm:  1.2345  \x1b[36mmemory: {memory:5.2f}GiB(49.77%) "
        f" \x1b[34mtps: {tps}  \x1b[36mtflops: 381.40  \x1b[35mmfu: 38.56%\x1b[39m"
    )


def test_torchtitan() -> None:
    """Memory is reserved GiB, the rate is per device, the first line is left out, validation lines are not steps."""
    log = "\n".join(
        [
            titan_line(1, 40.0, "103"),
            titan_line(10, 47.28, "7,412"),
            titan_line(20, 47.0, "7,500"),
            "[titan] - INFO - \x1b[33mvalidate step: 20  \x1b[32mloss: 3.0  \x1b[36mmemory: 60.00GiB(70.00%)  \x1b[34mtps: 9,999\x1b[39m",
            titan_line(30, 47.1, "7,300"),
        ]
    )
    values = by_code(only(read("torchtitan_log", log, Hints(device_count=8))))
    assert values["memory.peak_reserved"].value == pytest.approx(47.28 * GIB) and values["memory.peak_reserved"].scope == "rank0"
    rate = values["throughput.input_tokens_per_second"]
    assert (rate.value, rate.repeats, rate.excludes, rate.flags) == (7412 * 8, 3, ("first_step",), ("outcome_inferred",))
    alone = read("torchtitan_log", log)
    assert "throughput.input_tokens_per_second" not in by_code(only(alone))
    assert any("per device" in note.detail for note in alone.ignored)


def test_torchtitan_ranks() -> None:
    """The worst rank's memory."""
    log = "\n".join(titan_line(step, 40 + rank, "7,000", rank) for step in (1, 10) for rank in range(4))
    assert by_code(only(read("torchtitan_log", log)))["memory.peak_reserved"] == Value(
        code="memory.peak_reserved", value=43 * GIB, method="torch.cuda max reserved", scope="max", flags=("outcome_inferred",)
    )


# --- PyTorch's allocator ----------------------------------------------------------------------------------------------


def test_memory_stats() -> None:
    """Flat or nested, one rank or a list of them."""
    flat = {"allocated_bytes.all.peak": 61 * 10**9, "allocated_bytes.all.current": 1, "reserved_bytes.all.peak": 66 * 10**9}
    values = by_code(only(read("torch_memory", flat)))
    assert (values["memory.peak_allocated"].value, values["memory.peak_reserved"].value) == (61 * 10**9, 66 * 10**9)
    assert values["memory.peak_allocated"].scope == "rank0"
    nested = {"allocated_bytes": {"all": {"peak": 61 * 10**9}}, "reserved_bytes": {"all": {"peak": 66 * 10**9}}}
    assert by_code(only(read("torch_memory", nested))) == values
    gib = by_code(only(read("torch_memory", {"max_memory_allocated_gib": 56.5, "max_memory_reserved_mib": 60000})))
    assert (gib["memory.peak_allocated"].value, gib["memory.peak_reserved"].value) == (56.5 * GIB, 60000 * MIB)
    ranks = by_code(only(read("torch_memory", [{"max_memory_allocated": 5}, {"max_memory_allocated": 7}])))
    assert (ranks["memory.peak_allocated"].value, ranks["memory.peak_allocated"].scope) == (7, "max")


def test_memory_summary() -> None:
    """The printed table says MiB and means 2**20; the second column is the peak."""
    table = """|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |   2048 MiB |  61035 MiB |   1024 GiB |   1022 GiB |
|       from large pool |   2000 MiB |  61000 MiB |   1000 GiB |    998 GiB |
|---------------------------------------------------------------------------|
| Requested memory      |   2040 MiB |  60000 MiB |   1000 GiB |    998 GiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |  65000 MiB |     64 GiB |     64 GiB |      0 B   |
|===========================================================================|"""
    values = by_code(only(read("torch_memory", table)))
    assert (values["memory.peak_allocated"].value, values["memory.peak_reserved"].value) == (61035 * MIB, 64 * GIB)


def test_snapshot_is_replayed() -> None:
    """A snapshot holds the state at its dump; the peak comes from its trace."""
    trace = [
        {"action": "segment_alloc", "addr": 0, "size": 1000},
        {"action": "alloc", "addr": 0, "size": 600},
        {"action": "alloc", "addr": 600, "size": 300},
        {"action": "free_requested", "addr": 0, "size": 600},
        {"action": "free_completed", "addr": 0, "size": 600},
    ]
    snapshot = {"segments": [{"device": 0, "total_size": 1500, "allocated_size": 400}], "device_traces": [trace]}
    values = by_code(only(read("torch_memory", snapshot)))
    # 400 at the dump; before the free 1000; before the second allocation 700; before the first 100.
    assert (values["memory.peak_allocated"].value, values["memory.peak_reserved"].value) == (1000, 1500)
    assert values["memory.peak_allocated"].flags == ("window_only", "outcome_inferred")
    with pytest.raises(Unreadable, match="not the peak"):
        read("torch_memory", {**snapshot, "device_traces": [[]]})


# --- PEFT -------------------------------------------------------------------------------------------------------------


def test_peft_benchmark() -> None:
    """A public result: times without evaluation, two meanings of reserved memory, the adapter's file."""
    document = json.loads((CASES / "peft_lora_llama_3_2_3b_rank32.json").read_text())
    reading = read("peft_benchmark", document)
    attempt = only(reading)
    values = {(value.code, value.method.split()[0]): value.value for value in attempt.values}
    assert values["time.training", "train"] == pytest.approx(31.395267726013117 + 30.736502733019734)
    assert values["time.evaluation", "eval"] == pytest.approx(11.27943390099972 + 11.28520023999954)
    assert values["time.wall_clock", "total_time"] == 1993.494420946001
    assert values["memory.peak_reserved", "max_memory_reserved"] == 22273851392
    assert values["memory.peak_reserved", "99th"] == 17710763212
    assert values["storage.checkpoint_weights", "bytes"] == 36715216 == pytest.approx(4 * 9175040, rel=0.001), "fp32 adapters"
    assert values["tokens.input", "train"] == 4198051
    assert (attempt.outcome, attempt.steps_completed, attempt.device_count) == ("completed", 5000, 1)
    renamed = json.loads(json.dumps(document).replace("cuda_memory", "accelerator_memory"))
    assert read("peft_benchmark", renamed) == reading


# --- Trackers ---------------------------------------------------------------------------------------------------------


def test_wandb_summary() -> None:
    """The process's own clock, and the Trainer's keys under `train/`."""
    summary = {
        "_runtime": 3700.5,
        "_timestamp": 1700003700.5,
        "_step": 300,
        "_wandb": {"runtime": 3701},
        "train/train_runtime": 3600.0,
        "train/global_step": 300,
        "train/total_flos": 1e18,
        "train/num_input_tokens_seen": 0,
        "memory/max_reserved(GiB)": 47.5,
        "mfu(%)": 38.5,
    }
    reading = read("wandb_summary", summary)
    attempt, values = only(reading), by_code(only(reading))
    assert values["time.wall_clock"].value == 3701 and values["time.training"].value == 3600.0
    assert values["memory.peak_reserved"].value == 47.5 * GIB
    assert attempt.steps_completed == 300 and attempt.ended_at is not None
    assert {"/train/total_flos", "/train/num_input_tokens_seen", "/mfu(%)"} <= ignored(reading).keys()
    exported = {"id": "ab12", "state": "crashed", "summaryMetrics": json.dumps(summary)}
    crashed = only(read("wandb_summary", exported))
    assert (crashed.outcome, crashed.job_id) == ("failed", "ab12")
    assert {code: value.value for code, value in by_code(crashed).items()} == {code: value.value for code, value in values.items()}
    assert "outcome_inferred" in values["time.wall_clock"].flags and "outcome_inferred" not in by_code(crashed)["time.wall_clock"].flags


def test_keys_of_other_trainers() -> None:
    """torchtune's memory is GiB and its rate leaves masked tokens out; Megatron-LM's memory is bytes; verl's `_gb` is GiB."""
    tune = by_code(only(read("wandb_summary", {"peak_memory_alloc": 20.5, "tokens_per_second_per_gpu": 900.0}, Hints(device_count=4))))
    assert tune["memory.peak_allocated"].value == 20.5 * GIB and tune["throughput.target_tokens_per_second"].value == 3600.0
    megatron = by_code(only(read("wandb_summary", {"mem-max-allocated-bytes": 61e9, "iteration-time": 5.5})))
    assert (megatron["memory.peak_allocated"].value, megatron["time.step"].value) == (61e9, 5.5)
    verl = by_code(only(read("wandb_summary", {"perf/max_memory_reserved_gb": 70.0, "perf/throughput": 800.0}, Hints(device_count=8))))
    assert (verl["memory.peak_reserved"].value, verl["throughput.input_tokens_per_second"].value) == (70 * GIB, 6400.0)


def test_mlflow_run() -> None:
    """Times are milliseconds; system metrics are last samples, not peaks."""
    run = {
        "run": {
            "info": {"run_id": "r1", "status": "FINISHED", "start_time": 1700000000000, "end_time": 1700003600000},
            "data": {
                "metrics": [
                    {"key": "train_runtime", "value": 3500.0, "timestamp": 1700003500000, "step": 300},
                    {"key": "total_flos", "value": 0.0, "timestamp": 1700003500000, "step": 300},
                    {"key": "system/gpu_0_memory_usage_megabytes", "value": 30000.0, "timestamp": 1, "step": 0},
                ]
            },
        }
    }
    reading = read("mlflow_run", run)
    values = by_code(only(reading))
    assert (values["time.wall_clock"].value, values["time.training"].value) == (3600.0, 3500.0)
    assert not any(code.startswith("memory") for code in values)
    assert any("not the peak" in detail for detail in ignored(reading).values())
    assert only(reading).started_at is not None and only(reading).started_at.timestamp() == 1700000000  # type: ignore[union-attr]
    run["run"]["info"]["status"] = "RUNNING"
    with pytest.raises(Unreadable, match="not ended"):
        read("mlflow_run", run)


# --- Metrics servers and schedulers -----------------------------------------------------------------------------------


def series(name: str | None, gpu: int, values: list[tuple[int, str]]) -> dict[str, Any]:
    """One series of a range query."""
    labels = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "exported_pod": "sft-0"}
    return {"metric": {"__name__": name, **labels} if name else labels, "values": values}


def answer(*results: dict[str, Any]) -> dict[str, Any]:
    """A Prometheus answer."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(results)}}


def test_dcgm_memory_is_mebibytes() -> None:
    """The largest sample of any device."""
    points = [[(0, "60000"), (60, "61000")], [(0, "62000"), (60, "50000")]]
    document = answer(*(series("DCGM_FI_DEV_FB_USED", gpu, p) for gpu, p in enumerate(points)))
    memory = by_code(only(read("prometheus", document)))["memory.peak_process"]
    assert (memory.value, memory.scope, memory.flags) == (62000 * MIB, "max", ("sampled", "outcome_inferred"))


def test_the_query_names_what_a_function_dropped() -> None:
    """`max_over_time` has no name in its answer."""
    vector = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"gpu": "0"}, "value": [1700000000, "61000"]}]}}
    with pytest.raises(Unreadable, match="send the query"):
        read("prometheus", vector)
    asked = {"query": 'max_over_time(DCGM_FI_DEV_FB_USED{exported_pod=~"sft.*"}[6h])', "response": vector}
    assert by_code(only(read("prometheus", asked)))["memory.peak_process"].value == 61000 * MIB


def test_dcgm_hours() -> None:
    """Two devices seen for an hour, one of them half used: allocated and utilized hours are two methods."""
    minutes = [(60 * i, "100") for i in range(60)]
    half = [(60 * i, "50") for i in range(60)]
    attempt = only(read("prometheus", answer(series("DCGM_FI_DEV_GPU_UTIL", 0, minutes), series("DCGM_FI_DEV_GPU_UTIL", 1, half))))
    assert {value.basis: value.value for value in attempt.values} == {"allocated": pytest.approx(2.0), "utilized": pytest.approx(1.5)}
    assert len({value.method for value in attempt.values}) == 2


def pod(start: str, end: str, phase: str, gpus: int = 4, **status: Any) -> dict[str, Any]:
    """A pod that ended."""
    ended = {
        "state": {"terminated": {"startedAt": start, "finishedAt": end, "exitCode": 0 if phase == "Succeeded" else 1}},
        "restartCount": 0,
    }
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}, {"name": "sidecar"}]
    return {"kind": "Pod", "spec": {"containers": containers}, "status": {"phase": phase, "containerStatuses": [ended], **status}}


JOB = {
    "kind": "Job",
    "metadata": {"name": "sft", "uid": "0b1c"},
    "spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}]}}},
    "status": {
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T03:00:00Z",
        "succeeded": 1,
        "failed": 1,
        "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T03:00:00Z"}],
    },
}


def test_kubernetes_retries_are_pods() -> None:
    """A failed pod's hours count as an attempt of their own."""
    pods = [
        pod("2026-01-01T01:10:00Z", "2026-01-01T03:00:00Z", "Succeeded"),
        pod("2026-01-01T00:10:00Z", "2026-01-01T01:00:00Z", "Failed", reason="Evicted"),
    ]
    attempts = read("kubernetes_job", {"job": JOB, "pods": pods}).attempts
    assert [(a.attempt, a.outcome, a.job_id) for a in attempts] == [(1, "preempted", "sft"), (2, "completed", "sft")]
    assert [by_code(a)["device_hours.run"].value for a in attempts] == [pytest.approx(50 / 60 * 4), pytest.approx(110 / 60 * 4)]


def test_kubernetes_job_alone() -> None:
    """The Job's own window, which hides its failed pods."""
    attempt = only(read("kubernetes_job", JOB))
    hours = by_code(attempt)["device_hours.run"]
    assert (hours.value, hours.flags, attempt.outcome) == (12.0, ("retries_not_counted",), "completed")


def test_kubernetes_parallel_pods() -> None:
    """Two pods of four devices at once are eight devices and one attempt."""
    parallel = {**JOB, "spec": {"parallelism": 2, "completions": 2}}
    pods = [
        pod("2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z", "Succeeded"),
        pod("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "Succeeded"),
    ]
    attempt = only(read("kubernetes_job", {"kind": "List", "items": [parallel, *pods]}))
    assert (attempt.device_count, by_code(attempt)["device_hours.run"].value) == (8, pytest.approx(12.0))


def test_kubernetes_deadline() -> None:
    """A Job that hit its deadline timed out; a running one is not measured."""
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "lastTransitionTime": "2026-01-01T01:00:00Z"}
    failed = {"startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}
    attempt = only(read("kubernetes_job", {**JOB, "status": failed}))
    assert (attempt.outcome, by_code(attempt)["device_hours.run"].value) == ("timeout", 4.0)
    with pytest.raises(Unreadable, match="not ended"):
        read("kubernetes_job", {**JOB, "status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}})


SOUND |= {
    "hf_all_results": {**RESULTS, **MEMORY_METRICS, "num_input_tokens_seen": 5},
    "hf_trainer_state": STATE,
    "torch_memory": [{"max_memory_allocated": 5}, {"segments": [{"total_size": 5}], "device_traces": [[{"action": "alloc", "size": 3}]]}],
    "peft_benchmark": json.loads((CASES / "peft_lora_llama_3_2_3b_rank32.json").read_text()),
    "wandb_summary": {
        "state": "finished",
        "summary": {"_runtime": 5.0, "_timestamp": 1700000000.0, "train/train_runtime": 4.0, "throughput(tps)": 7},
    },
    "mlflow_run": {
        "run": {
            "info": {"status": "FINISHED", "start_time": 1, "end_time": 5},
            "data": {"metrics": [{"key": "train_runtime", "value": 1}]},
        }
    },
    "prometheus": answer(series("DCGM_FI_DEV_FB_USED", 0, [(0, "1"), (60, "2")]), series("DCGM_FI_DEV_GPU_UTIL", 0, [(0, "1"), (60, "2")])),
    "kubernetes_job": {"job": JOB, "pods": [pod("2026-01-01T01:10:00Z", "2026-01-01T03:00:00Z", "Succeeded")]},
    "sacct_json": {"jobs": json.loads((CASES / "slurm" / "debian12_22.05_sacct_json_dbv0.0.38.json").read_text())["jobs"][:3]},
    "slurm_jobcomp": [
        json.loads(json.loads(line)["body"])
        for line in (CASES / "slurm" / "debian12_22.05_jobcomp_elasticsearch_POSTs.jsonl").read_text().splitlines()
    ],
}  # fmt: skip
