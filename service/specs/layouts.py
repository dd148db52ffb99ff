"""Layouts that are priced as they stand and hardly meant: ranks without work, heads that do not divide."""

from __future__ import annotations

from collections.abc import Iterator

from service.estimation.architecture import Architecture
from service.estimation.by_identity import ByIdentity
from service.estimation.run import Run
from service.estimation.warnings import Warning


def warnings(run: Run) -> list[Warning]:
    """One warning for every such dimension of the layout."""
    return [Warning(code=code, detail=detail, pointer=f"/parallelism/{name}") for code, name, detail in _found(run)]


def _found(run: Run) -> Iterator[tuple[str, str, str]]:
    layout, model = run.layout, run.architecture
    blocks, stages = len(model.layers), layout.pipeline * layout.virtual_pipeline
    if blocks and stages > max(blocks, 1) and stages > 1:
        name = "pipeline" if layout.pipeline > blocks else "virtual_pipeline"
        yield "empty_pipeline_stages", name, f"{stages} stages for {blocks} blocks: some have none and only wait"
    uneven = [number for number in _heads(model) if number % layout.tensor]
    if uneven:
        text = (
            f"{uneven[0]} attention heads over {layout.tensor} ranks are uneven: most frameworks refuse it, here the largest share counts"
        )
        yield "uneven_tensor_split", "tensor", text
    if layout.expert > 1 and blocks and not any(matrix.part == "experts" for block, _ in model.kinds() for matrix in block.matrices):
        yield "expert_parallel_without_experts", "expert", "the model has no experts to spread"
    if run.sequence_length is not None and layout.context > run.sequence_length:
        text = f"{layout.context} ranks share a sequence of {run.sequence_length} positions: some have none"
        yield "context_parallel_exceeds_sequence", "context", text
    group = layout.shard_group_size
    if layout.sharding == "hybrid" and group is not None and (group > layout.data or layout.data % group):
        text = f"groups of {group} do not divide the {layout.data} data-parallel ranks"
        yield "shard_groups_do_not_divide", "shard_group_size", text


@ByIdentity
def _heads(model: Architecture) -> tuple[int, ...]:
    """Distinct numbers of attention heads, ascending."""
    parts = [part for block, _ in model.kinds() for part in (block.attention, block.cross_attention) if part is not None]
    return tuple(sorted({part.query_heads for part in parts}))
