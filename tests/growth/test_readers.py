"""Every reader takes time in proportion to its document, ordinary or made to be slow."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any, get_args

import pytest

from service.actuals.measurement import Hints, Unreadable
from service.actuals.readers import Format, read
from tests.growth.measure import grows_in_proportion

Make = Callable[[int], Any]
HINTS = Hints(device_count=8)


def torchtitan_log(n: int) -> str:
    return "\n".join(
        f"[rank0]:[titan] step: {i}  loss: 7.1  memory: 47.28GiB(49.77%)  tps: 7,{400 + i % 90}  mfu: 58.1%" for i in range(1, n)
    )


def megatron_log(n: int) -> str:
    line = " iteration {i}/ 99999999 | elapsed time per iteration (ms): 120.{j} | global batch size: 512 |"
    return "\n".join(line.format(i=i, j=i % 10) for i in range(1, n))


def megatron_sessions(n: int) -> str:
    """Every line begins again: as many sessions as lines."""
    return "\n".join(" iteration 1/ 10 | elapsed time per iteration (ms): 120.5 | global batch size: 512 |" for _ in range(n))


def trainer_state(n: int) -> dict[str, Any]:
    rows = [{"step": i, "loss": 1.0 + i, "eval_runtime": 2.0} for i in range(n)]
    return {"log_history": [*rows, {"step": n, "train_runtime": 100.0}], "global_step": n}


def trainer_sessions(n: int) -> dict[str, Any]:
    """Every row closes a session."""
    return {"log_history": [{"step": i, "train_runtime": 100.0 + i} for i in range(n)], "global_step": n}


def all_results(n: int) -> dict[str, Any]:
    return {"train_runtime": 100.0, **{f"eval_metric_{i}": 0.5 for i in range(n)}}


def sacct_json(n: int) -> dict[str, Any]:
    job = {
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 1767000000, "start": 1767000100, "end": 1767003700, "elapsed": 3600},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 8}]},
        "comment": "quote:0",
    }
    return {"jobs": [{"job_id": i, **job} for i in range(n)]}


def sacct_tries(n: int) -> dict[str, Any]:
    """One job, requeued again and again."""
    return {"jobs": [{**job, "job_id": 1} for job in sacct_json(n)["jobs"]]}


def sacct_parsable(n: int) -> str:
    head = "JobID|JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|AllocTRES|TRESUsageInMax|NTasks\n"
    rows = (
        f"{i}|{i}|c|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|cpu=8,gres/gpu=8,mem=64G||\n"
        f"{i}.0|{i}.0|c|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|cpu=8|gres/gpumem=38888M|8\n"
        for i in range(n)
    )
    return head + "".join(rows)


def jobcomp(n: int) -> str:
    post = {
        "state": "COMPLETED",
        "@start": "2026-01-01T00:00:00",
        "@end": "2026-01-01T01:00:00",
        "elapsed": 3600,
        "tres_alloc": "gres/gpu=8",
    }
    return "\n".join(json.dumps({"jobid": i, **post}) for i in range(n))


def memory_ranks(n: int) -> list[dict[str, Any]]:
    return [{"allocated_bytes.all.peak": 6e10 + i, "reserved_bytes.all.peak": 7e10} for i in range(n)]


def memory_events(n: int) -> dict[str, Any]:
    trace = [{"action": "alloc" if i % 2 else "free_completed", "size": 1024} for i in range(n)]
    return {"segments": [{"device": 0, "total_size": 1e9, "allocated_size": 1e9}], "device_traces": [trace]}


def memory_devices(n: int) -> dict[str, Any]:
    """As many devices as segments."""
    segments = [{"device": i, "total_size": 2048, "allocated_size": 1024} for i in range(n)]
    return {"segments": segments, "device_traces": [[{"action": "alloc", "size": 8}]] * n}


def memory_tables(n: int) -> str:
    row = "| Allocated memory      |   2048 KiB |  61000 MiB |   9 GiB |  9 GiB |\n"
    return row * n


def memory_spaces(n: int) -> str:
    """What looks like the table's row, and is spaces."""
    return "| Allocated memory      |   2048 KiB |  61000 MiB |\n" + "|" + " " * n + "|" * n


def peft(n: int) -> dict[str, Any]:
    rows = [{"step": i, "train time": 1.5, "eval time": 0.5, "train total tokens": i} for i in range(1, n + 1)]
    return {"run_info": {"total_time": 100.0}, "train_info": {"status": "success", "metrics": rows}}


def wandb(n: int) -> dict[str, Any]:
    return {"_runtime": 100.0, "_timestamp": 1767000000, **{f"layer.{i}/grad": 0.5 for i in range(n)}}


def mlflow(n: int) -> dict[str, Any]:
    info = {"status": "FINISHED", "start_time": 1767000000000, "end_time": 1767000100000}
    return {"run": {"info": info, "data": {"metrics": [{"key": f"system/gpu_{i}", "value": 1.0} for i in range(n)]}}}


def prometheus_points(n: int) -> dict[str, Any]:
    series = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, "values": [[1767000000 + i, "97"] for i in range(n)]}
    return {"status": "success", "data": {"result": [series]}}


def prometheus_series(n: int) -> dict[str, Any]:
    """Many series, and a query that names their metric at its end."""
    result = [{"metric": {"gpu": str(i)}, "value": [1767000000, "70000"]} for i in range(n)]
    return {"query": "x" * (200 * n) + "DCGM_FI_DEV_FB_USED", "response": {"status": "success", "data": {"result": result}}}


def pod(i: int) -> dict[str, Any]:
    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T01:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": {"name": f"p{i}"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": times}}]},
    }


def job(parallelism: int, containers: int = 1) -> dict[str, Any]:
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}] * containers}}
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z"}
    return {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": parallelism, "template": template},
        "status": {**times, "conditions": [{"type": "Complete", "status": "True"}]},
    }


def pods_together(n: int) -> dict[str, Any]:
    return {"job": job(n), "pods": [pod(i) for i in range(n)]}


def pods_in_turn(n: int) -> dict[str, Any]:
    return {"job": job(1), "pods": [pod(i) for i in range(n)]}


def pods_of_template(n: int) -> dict[str, Any]:
    """Pods that do not say what they hold, of a Job with as many containers."""
    return {"job": job(1, containers=n), "pods": [{**pod(i), "spec": {}} for i in range(n)]}


CASES: dict[str, tuple[Make, ...]] = {
    "hf_trainer_state": (trainer_state, trainer_sessions),
    "hf_all_results": (all_results,),
    "sacct_json": (sacct_json, sacct_tries),
    "sacct_parsable": (sacct_parsable,),
    "slurm_jobcomp": (jobcomp,),
    "megatron_log": (megatron_log, megatron_sessions),
    "torchtitan_log": (torchtitan_log,),
    "torch_memory": (memory_ranks, memory_events, memory_devices, memory_tables, memory_spaces),
    "peft_benchmark": (peft,),
    "wandb_summary": (wandb,),
    "mlflow_run": (mlflow,),
    "prometheus": (prometheus_points, prometheus_series),
    "kubernetes_job": (pods_together, pods_in_turn, pods_of_template),
}


def test_every_reader_is_measured() -> None:
    assert set(CASES) == set(get_args(Format))


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, makes in CASES.items() for make in makes])
def test_a_document_is_read_in_time_proportional_to_its_length(name: Format, make: Make) -> None:
    grows_in_proportion(make, lambda document: read(name, document, HINTS), 500)


TEXTS = {
    "digits": lambda n: "step: 1" + "1" * n,
    "spaces": lambda n: "iteration " + " " * n + "/",
    "starts": lambda n: "memory: tps: step: iteration elapsed time per iteration (ms): " * (n // 50 + 1),
    "colours": lambda n: "\x1b[" * n + "0" * n,
    "bars": lambda n: "JobID|State|Elapsed" + "|" * n + "\n" + "|" * n,
    "brackets": lambda n: "[" * min(n, 900) + "{" * n,
    "quotes": lambda n: "JobID|State|Elapsed|Comment\n1|COMPLETED|01:00|" + "quote:" * n,
    "numbers": lambda n: "| Allocated memory | " + "1" * n + " MiB | " + "2" * n,
}


@pytest.mark.parametrize("name", ["sacct_parsable", "slurm_jobcomp", "megatron_log", "torchtitan_log", "torch_memory"])
@pytest.mark.parametrize("text", TEXTS)
def test_hostile_text_is_read_or_refused_in_time_proportional_to_its_length(name: Format, text: str) -> None:
    def attempt(document: str) -> None:
        with contextlib.suppress(Unreadable):
            read(name, document, HINTS)

    grows_in_proportion(TEXTS[text], attempt, 100_000, most=400_000)


def test_a_number_in_a_document_decides_about_no_amount_of_work() -> None:
    """A Job of 10^15 pods at once is one line of text; 8 devices an hour each."""
    (attempt,) = read("kubernetes_job", job(10**15)).attempts
    assert attempt.device_count == 8 * 10**15
    assert [value.value for value in attempt.values] == [8e15, 3600.0]
