"""Features of the factor on top of the mechanistic model: what stack, device, method and size add that no term explains.

Features are plain numbers of a run; ``fitted.step_time.RESIDUAL`` holds their shrunk weights. Nothing that a search over layouts
varies enters, so that one factor holds for a whole search.
"""

from __future__ import annotations

import math

from ..fitted.step_time import RESIDUAL
from ..parameters import Parameters
from ..recipes import RECIPES
from .predictable import PredictableRun

CATEGORY, INTERACTION, SLOPE = 1 / 2.0, 1 / 2.0, 1 / 8.0  # scales: smaller is shrunk more


def features(known: PredictableRun, parameters: Parameters) -> dict[str, float]:
    """Named features; the larger the scale, the less they are shrunk."""
    run, hardware = known.run, known.hardware
    family, stack = hardware.device.architecture or "", run.software.stack
    width = RECIPES[run.precision.recipe].width
    found = {
        "all": CATEGORY,
        f"stack {stack}": CATEGORY,
        f"family {family}": CATEGORY,
        f"{stack} {family}": INTERACTION,
        f"{stack} {family} {width}": INTERACTION,
        f"{stack} {run.layout.sharding}": INTERACTION,
        f"{stack} recompute {run.activation_checkpointing}": 1 / 3.0,
    }
    if run.method.kind in ("lora", "qlora"):
        found[f"method {run.method.kind}"] = CATEGORY
    if parameters.experts:
        found["experts"] = 1 / 3.0
        found[f"experts {width}"] = 1 / 3.0
    if run.sequence_length:
        found["ln sequence"] = (math.log(run.sequence_length) - 7.6) * SLOPE
    if run.architecture.hidden:
        found["ln hidden"] = (math.log(run.architecture.hidden) - 8.3) * SLOPE
    found["ln devices"] = (math.log(hardware.device_count) - 3.0) * SLOPE
    if parameters.total:
        found["ln parameters"] = (math.log(parameters.total) - 22.0) / 12.0
    return found


def residual_of(known: PredictableRun, parameters: Parameters) -> float:
    """The factor of a run."""
    return math.exp(sum(RESIDUAL.get(name, 0.0) * value for name, value in features(known, parameters).items()))
