"""Scaling laws and speed-ups over HTTP; nothing is stored."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from service.estimation import scaling, scaling_life
from service.estimation.scaling_losses import Loss, published_loss
from service.kit import api, documents
from service.kit.documents import JsonBody
from service.kit.problems import Fault, Invalid
from service.kit.security import Caller, allow

from .schemas import (
    Comparison,
    Exponents,
    FittedRange,
    Note,
    OptimumAnswer,
    OptimumRequest,
    PlannedModel,
    PredictedLoss,
    SmallerModel,
    SpeedupAnswer,
    SpeedupRequest,
)

router = APIRouter(prefix="/scaling", tags=["scaling"])

SHARES = (1 / 2, 1 / 3, 1 / 5)  # of the optimum's size, for the smaller models


@router.post(
    "/compute-optimal",
    summary="The compute-optimal model by a published law",
    openapi_extra=api.takes(OptimumRequest, {"law": "chinchilla_20", "training_flops": 7.227e23, "inference_tokens": 1e13}),
    responses=api.gives(200, OptimumAnswer, "The model, where the law was fitted, and what it does not promise.") | api.problems(*api.BODY),
)
def compute_optimal(body: JsonBody, caller: Caller = allow("quotes:read", "quotes:write")) -> Response:
    """Parameters and tokens from a budget (or either from the other), with the cost over the model's life."""
    asked = body.read(OptimumRequest)
    best = scaling.optimum(asked.law, training_flops=asked.training_flops, parameters=asked.parameters, tokens=asked.tokens)
    warnings = [Note(code=code, detail=detail) for code, detail in best.warnings]
    if asked.law == "kaplan":
        warnings.append(Note(code="superseded_law", detail="Hoffmann et al. (2022) found far more tokens optimal at the same compute"))
    traded = scaling_life.trading(best.law)
    least = None if asked.inference_tokens is None else scaling_life.cheapest_over_life(best, asked.inference_tokens)
    candidates = [scaling_life.smaller(best, best.parameters * share, asked.inference_tokens) for share in SHARES]
    tokens = 1.0 if asked.inference_tokens is None else asked.inference_tokens
    read = scaling_life.inference_flops(best.parameters, tokens)
    answer = OptimumAnswer(
        law=best.law,
        training_flops=best.training_flops,
        parameters=best.parameters,
        tokens=best.tokens,
        tokens_per_parameter=best.tokens_per_parameter,
        exponents=Exponents(parameters=best.parameters_exponent, tokens=best.tokens_exponent),
        fitted_range=FittedRange(
            training_flops=best.fitted.training_flops, parameters=best.fitted.parameters, tokens=best.fitted.tokens, on=best.fitted.words
        ),
        predicted_loss=None if best.loss is None else _loss(best.loss),
        inference_flops=read,
        lifetime_flops=None if asked.inference_tokens is None else best.training_flops + read,
        smaller_models=[_smaller(one) for one in candidates if one is not None],
        cheapest_over_life=None if least is None else _smaller(least),
        loss_traded_by=f"{traded.name}: {traded.source}",
        planned=None if asked.planned is None else _compared(best, asked.planned, tokens),
        source=best.source,
        assumptions=list(best.assumptions),
        not_promised=scaling.PROMISES,
        warnings=warnings,
    )
    return Response(documents.dump(answer.model_dump()), media_type=documents.JSON)


@router.post(
    "/speedup",
    summary="What the whole job gains when a stage gets faster",
    openapi_extra=api.takes(SpeedupRequest, {"stage_seconds": {"training": 4200, "other": 1800}, "speedups": {"training": 2}}),
    responses=api.gives(200, SpeedupAnswer, "Before and after.") | api.problems(*api.BODY),
)
def compute_speedup(body: JsonBody, caller: Caller = allow("quotes:read", "quotes:write")) -> Response:
    """The stages that are not named take as long as before."""
    asked = body.read(SpeedupRequest)
    known = sorted(asked.stage_seconds)
    unknown = [name for name in asked.speedups if name not in asked.stage_seconds]
    faults = [
        Fault(
            documents.pointer(("speedups", name)),
            "no such stage in stage_seconds" + (documents.nearest(name, known) if index < documents.MAXIMUM_HINTS else ""),
        )
        for index, name in enumerate(unknown[: documents.MAXIMUM_FAULTS])
    ]
    if faults:
        raise Invalid("speedups: a stage that stage_seconds does not have", errors=faults)
    job = scaling.speedup(asked.stage_seconds, asked.speedups)
    answer = SpeedupAnswer(
        before_seconds=job.before_seconds, after_seconds=job.after_seconds, speedup=job.speedup, stage_seconds_after=job.stages
    )
    return Response(documents.dump(answer.model_dump()), media_type=documents.JSON)


def _loss(loss: Loss) -> PredictedLoss:
    return PredictedLoss(value=loss.value, law=loss.law, formula=loss.formula, constants=loss.constants, source=loss.source)


def _smaller(one: scaling_life.Smaller) -> SmallerModel:
    return SmallerModel(
        parameters=one.parameters,
        tokens=one.tokens,
        training_flops=one.training_flops,
        tokens_per_parameter=one.tokens_per_parameter,
        over_training_ratio=one.over_training_ratio,
        break_even_inference_tokens=one.break_even_inference_tokens,
        lifetime_flops=one.lifetime_flops,
    )


def _compared(best: scaling.Optimum, planned: PlannedModel, inference_tokens: float) -> Comparison:
    rival = scaling_life.equally_good(best.law, planned.parameters, planned.tokens)
    loss = published_loss(planned.parameters, planned.tokens)
    even = None if rival is None else scaling_life.break_even(rival, (planned.parameters, planned.tokens))
    return Comparison(
        parameters=planned.parameters,
        tokens=planned.tokens,
        tokens_per_parameter=planned.tokens / planned.parameters,
        training_flops=scaling_life.training_flops(planned.parameters, planned.tokens),
        over_training_ratio=scaling.over_training(best.law, planned.parameters, planned.tokens),
        predicted_loss=_loss(loss),
        inference_flops=scaling_life.inference_flops(planned.parameters, inference_tokens),
        break_even_inference_tokens=even,
        optimal_parameters_at_its_loss=None if rival is None else rival[0],
        optimal_tokens_at_its_loss=None if rival is None else rival[1],
    )
