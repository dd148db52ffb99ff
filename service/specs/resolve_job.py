"""The parts of a spec that speak of the whole job, filled in."""

from __future__ import annotations

from typing import Any

from service.estimation import run as r

from .section import Section
from .spec import RunSpec


def efficiency(spec: RunSpec, top: Section, provenance: dict[str, str]) -> r.Efficiency:
    """What the caller knows of speed."""
    if spec.efficiency is None:
        return r.Efficiency()
    section = Section(spec.efficiency, "/efficiency", provenance, top.out, "efficiency")
    values = {name: section.take(name) for name in ("mfu", "hfu", "step_seconds", "input_tokens_per_second")}
    convention = section.take("mfu_convention", "6nd")
    return r.Efficiency(mfu_convention=convention, **values)


def checkpointing(spec: RunSpec, top: Section, provenance: dict[str, str]) -> r.CheckpointPolicy:
    """What is saved and how often."""
    section = Section(spec.checkpointing, "/checkpointing", provenance, top.out, "checkpointing")
    return r.CheckpointPolicy(
        interval_steps=section.take("interval_steps"),
        interval_seconds=section.take("interval_seconds"),
        contents=section.take("contents", "full"),
        state_dict=section.take("state_dict", "full"),
        retain_last=section.take("retain_last"),
        weights_interval_steps=section.take("weights_interval_steps"),
        asynchronous=section.take("asynchronous", False),
        storage_bytes_per_second=section.take("storage_bytes_per_second"),
        load_seconds=section.take("load_seconds"),
    )


def data_pipeline(spec: RunSpec, top: Section, provenance: dict[str, str]) -> r.DataPipeline:
    """Data on its way to the devices."""
    section = Section(spec.data_pipeline, "/data_pipeline", provenance, top.out, "data_pipeline")
    return r.DataPipeline(
        raw_bytes=section.take("raw_bytes"),
        processed_bytes=section.take("processed_bytes"),
        token_bytes=section.take("token_bytes", 4.0),
        cache_copies=section.take("cache_copies", 1.0),
        input_tokens_per_second=section.take("input_tokens_per_second"),
    )


def evaluation(spec: RunSpec, top: Section, provenance: dict[str, str]) -> r.Evaluation:
    """Evaluation, suites with their defaults."""
    if spec.evaluation is None:
        return r.Evaluation()
    section = Section(spec.evaluation, "/evaluation", provenance, top.out, "evaluation")
    suites = section.items("suites", {"tokens": 0, "generated_tokens": 0})
    return r.Evaluation(
        interval_steps=section.take("interval_steps"),
        tokens_per_evaluation=section.take("tokens_per_evaluation"),
        suites=tuple(r.EvaluationSuite(**suite) for suite in suites),
        device_hours=section.take("device_hours"),
    )


def reserves(spec: RunSpec, top: Section, provenance: dict[str, str]) -> r.Reserves:
    """What is set aside; left out, the stated priors hold."""
    if spec.reserves is None:
        return r.Reserves()
    section = Section(spec.reserves, "/reserves", provenance, top.out, "reserves")
    names = ("rerun_fraction", "ablation_fraction", "interruptions_per_device_hour", "restart_seconds")
    values = {name: section.take(name) for name in names}
    return r.Reserves(ablation_runs=tuple(r.AblationRun(**run) for run in section.items("ablation_runs", {})), **values)


def post_training(spec: RunSpec, method: r.Method, top: Section, provenance: dict[str, str]) -> r.PostTraining:
    """Generation and feedback, where the objective has them or the caller names them."""
    if spec.post_training is None and method.objective in ("pretrain", "sft"):
        return r.PostTraining()
    section = Section(spec.post_training, "/post_training", provenance, top.out, "post_training")
    defaults: dict[str, Any] = {"samples_per_prompt": 1, "update_epochs": 1.0, "reference": "model", "generator": "colocated"}
    names = r.PostTraining.__dataclass_fields__
    return r.PostTraining(**{name: section.take(name, defaults.get(name)) for name in names})


def rates(spec: RunSpec, top: Section, provenance: dict[str, str]) -> tuple[r.Rate, ...]:
    """Prices as they were given."""
    if not spec.rates:
        return ()
    rates = [rate.model_dump(exclude_none=True) for rate in spec.rates]
    top.out["rates"] = rates
    provenance["/rates"] = "given"
    return tuple(r.Rate(**rate) for rate in rates)
