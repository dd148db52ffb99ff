"""What the scaling endpoints take and answer."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from service.estimation.scaling import LawName
from service.kit.documents import RequestModel

# No budget, model or corpus comes near these; beyond them powers would leave the range of a double.
Flops = Annotated[float, Field(ge=1, le=1e40)]
Parameters = Annotated[float, Field(ge=1, le=1e18)]
Tokens = Annotated[float, Field(ge=1, le=1e20)]
Seconds = Annotated[float, Field(ge=0, le=1e15)]
Factor = Annotated[float, Field(gt=1e-9, le=1e9)]
StageName = Annotated[str, Field(min_length=1, max_length=100)]


class PlannedModel(RequestModel):
    """A model that is planned or trained, to be held against the law."""

    parameters: Parameters
    tokens: Tokens


class OptimumRequest(RequestModel):
    """A law and exactly one of a budget, a size and a number of tokens."""

    law: LawName = Field(default="chinchilla_20", description="The published law.")
    training_flops: Flops | None = Field(default=None, description="Budget of the training run, FLOPs.")
    parameters: Parameters | None = Field(default=None, description="Parameters (without embeddings under `kaplan`).")
    tokens: Tokens | None = Field(default=None, description="Training tokens, none of them repeated.")
    inference_tokens: Tokens | None = Field(default=None, description="Tokens that the model will read and write in its life.")
    planned: PlannedModel | None = Field(default=None, description="A model to hold against the law.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(value is not None for value in (self.training_flops, self.parameters, self.tokens)) != 1:
            raise ValueError("give exactly one of training_flops, parameters and tokens")
        return self


class Exponents(BaseModel):
    """How the optimum grows: N ~ C^parameters, D ~ C^tokens."""

    parameters: float
    tokens: float


class FittedRange(BaseModel):
    """What the law was fitted on: lowest and highest."""

    training_flops: tuple[float, float]
    parameters: tuple[float, float]
    tokens: tuple[float, float]
    on: str = Field(description="Which runs.")


class PredictedLoss(BaseModel):
    """A loss on the distribution that the law was fitted on, in nats a token."""

    value: float
    law: str
    formula: str
    constants: dict[str, float]
    source: str


class SmallerModel(BaseModel):
    """A smaller model trained longer, to the same predicted loss."""

    parameters: float
    tokens: float
    training_flops: float
    tokens_per_parameter: float
    over_training_ratio: float = Field(description="Its tokens over those that the law gives its size.")
    break_even_inference_tokens: float = Field(
        description="From this many inference tokens on it has cost less in all than the optimum; 0 where its training is cheaper already."
    )
    lifetime_flops: float | None = Field(description="Training and `inference_tokens`; null where they are not given.")


class Comparison(BaseModel):
    """A planned model held against the law."""

    parameters: float
    tokens: float
    tokens_per_parameter: float
    training_flops: float
    over_training_ratio: float = Field(description="Its tokens over those that the law gives its size.")
    predicted_loss: PredictedLoss
    inference_flops: float
    break_even_inference_tokens: float | None = Field(
        description="Inference tokens from which it has cost less in all than the compute-optimal model with its predicted loss."
    )
    optimal_parameters_at_its_loss: float | None
    optimal_tokens_at_its_loss: float | None


class Note(BaseModel):
    """Something to know before trusting the answer."""

    code: str
    detail: str


class OptimumAnswer(BaseModel):
    """The compute-optimal model by a published law."""

    law: LawName
    training_flops: float
    parameters: float
    tokens: float
    tokens_per_parameter: float
    exponents: Exponents
    fitted_range: FittedRange
    predicted_loss: PredictedLoss | None = Field(description="Null where the law's paper publishes no loss.")
    inference_flops: float = Field(description="2 N for every inference token; for one token where `inference_tokens` is left out.")
    lifetime_flops: float | None = Field(description="Training and `inference_tokens` together; null where they are not given.")
    smaller_models: list[SmallerModel] = Field(description="Half, a third and a fifth of the size, trained to the same predicted loss.")
    cheapest_over_life: SmallerModel | None = Field(
        description="Of those, the size that costs least over training and `inference_tokens`; null where that is the optimum itself."
    )
    loss_traded_by: str = Field(description="The loss law by which smaller models' tokens are found.")
    planned: Comparison | None
    source: str
    assumptions: list[str]
    not_promised: str
    warnings: list[Note]


class SpeedupRequest(RequestModel):
    """Seconds of every stage of a job, and how many times faster some of them become."""

    stage_seconds: Annotated[dict[StageName, Seconds], Field(min_length=1, max_length=100)]
    speedups: Annotated[dict[StageName, Factor], Field(max_length=100)] = Field(description="By stage; 2 is twice as fast.")


class SpeedupAnswer(BaseModel):
    """The whole job before and after."""

    before_seconds: float
    after_seconds: float
    speedup: float | None = Field(description="Before over after; null where the job takes no time.")
    stage_seconds_after: dict[str, float]
