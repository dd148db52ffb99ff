"""Changed runs: a merge patch of the spec tried on the run that it makes, quickly where only layout and switches change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.estimation import memory
from service.estimation.correction import Corrections
from service.estimation.run import Data, Run
from service.kit.merge_patch import patched
from service.kit.problems import Problem
from service.specs.resolve import Resolved, resolve
from service.specs.spec import RunSpec

from .condensed import condensed
from .levers import Change
from .search import Tried

FILLED_IN = frozenset({"default", "derived", "catalog"})
# What a patch may set for its run to follow without the spec being read again: no default of another field hangs on these.
DIRECT = {
    "batch": frozenset({"micro_batch_size", "gradient_accumulation_steps"}),
    "parallelism": frozenset({"tensor", "pipeline", "context", "expert", "sequence_parallel", "sharding", "shard_group_size"}),
    "software": frozenset({"fused_loss", "cpu_offload"}),
    "optimizer": frozenset({"implementation"}),
    "hardware": frozenset({"device_count"}),
}
SWITCHES = frozenset({"activation_checkpointing", "attention", "sequence_length", "decoder_sequence_length"})


@dataclass(slots=True)
class Trials:
    """Tries patches on one spec."""

    run: Run  # of the spec as it is, its sample lengths condensed
    given: dict[str, Any]  # the spec without what was filled in, so that defaults follow a change
    data: Data
    corrections: Corrections
    bases: dict[str, Run | None] = field(default_factory=dict)  # runs of patches that were read, on which direct ones are set

    @classmethod
    def of(cls, resolved: Resolved, corrections: Corrections) -> Trials:
        """Trials on a resolved spec."""
        given, data = _given(resolved.spec, resolved.provenance, ""), condensed(resolved.run.data)
        if data.histogram is not None:
            given["data"] = {"samples": 1, "prompt_tokens": 1, "target_tokens": 1, "packing": data.packing}
        return cls(replace(resolved.run, data=data), given, data, corrections)

    def attempt(self, change: Change) -> Tried | None:
        """The changed run and its peak; None where the rest of the spec forbids the patch."""
        run = self._changed(change)
        return None if run is None else self.tried(run)

    def confirmed(self, change: Change, tried: Tried) -> Tried | None:
        """The same of the patched spec as a caller would post it, whatever way it was tried."""
        run = self.read(change)
        if run is None:
            return None
        same = replace(tried.run, batch=replace(tried.run.batch, global_batch_size=run.batch.global_batch_size)) == run
        return Tried(run, tried.peak, tried.high) if same else self.tried(run)

    def tried(self, run: Run) -> Tried | None:
        """A run with its peak; None where that is not known."""
        found = memory.figures(run, self.corrections)
        return None if found is None else Tried(run, float(found.process.expected), float(found.process.high))

    def read(self, change: Change) -> Run | None:
        """The run of the patched spec; None where it is no spec."""
        try:
            run = resolve(RunSpec.model_validate(patched(self.given, change))).run
        except (Problem, ValueError):
            return None
        return run if self.data.histogram is None else replace(run, data=self.data)

    def _changed(self, change: Change) -> Run | None:
        """What must be read is read once, by itself; the rest is set on its run."""
        if self.run.layout.sharding == "hybrid":
            return self.read(change)  # its groups follow the layout
        direct, other = _parted(change)
        if not other:
            return self._directly(self.run, direct)
        key = json.dumps(other, sort_keys=True)
        if key not in self.bases:
            self.bases[key] = self.read(other)
        base = self.bases[key]
        if not direct:
            return base
        # What the spec forbids by itself may be allowed with the rest.
        return self._directly(base, direct) if base is not None else self.read(change)

    def _directly(self, run: Run, change: Change) -> Run:
        """The run with the patch's own fields set: what resolving the patched spec makes, as :meth:`confirmed` holds."""
        wanted = dict(change.get("parallelism", {}))
        # Patches keep the batch of the run as it is, or say how it is cut: a base that was read alone may have cut it otherwise.
        layout, batch, hardware = run.layout, self.run.batch, run.hardware
        assert hardware is not None
        count = change.get("hardware", {}).get("device_count")
        if count is not None:
            hardware = replace(hardware, device_count=count)
        if wanted or count is not None:
            layout = replace(layout, **wanted)
            layout = replace(layout, data=hardware.device_count // (layout.tensor * layout.pipeline * layout.context))
        if "batch" in change:
            batch = replace(batch, **change["batch"])
        software, switches = run.software, dict(change.get("software", {}))
        if "cpu_offload" in switches:
            switches["cpu_offload"] = frozenset(switches["cpu_offload"])
        if switches:
            software = replace(software, **switches)
        return replace(
            run,
            layout=layout,
            batch=batch,
            hardware=hardware,
            software=software,
            optimizer=replace(run.optimizer, **change["optimizer"]) if "optimizer" in change else run.optimizer,
            **{name: value for name, value in change.items() if name in SWITCHES},
        )


def _parted(change: Change) -> tuple[Change, Change]:
    """What of a patch is set on a run directly, and what the spec must be read again for; a section goes one way as a whole."""
    direct: Change = {}
    other: Change = {}
    for name, value in change.items():
        follows = name in SWITCHES or (name in DIRECT and DIRECT[name] >= value.keys())
        (direct if follows else other)[name] = value
    return direct, other


def _given(document: Mapping[str, Any], provenance: Mapping[str, str], pointer: str) -> dict[str, Any]:
    """The spec without what was filled in, so that defaults follow a change."""
    result = {}
    for name, value in document.items():
        where = f"{pointer}/{name}"
        if provenance.get(where) in FILLED_IN:
            continue
        inner = _given(value, provenance, where) if isinstance(value, Mapping) and where not in provenance else value
        if inner != {}:
            result[name] = inner
    return result
