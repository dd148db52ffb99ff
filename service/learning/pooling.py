"""The fit of a driver's cells (the model is ``calibration``'s): robust means, variances by moments, a tree up and down; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import drift
from .calibration import GLOBAL, HALF_LIFE_RUNS, Cell, Fit, Prior, RunError, prior

MEMORY_RUNS = 200  # runs of a cell that are looked at: at the default half-life the oldest weighs 1 %
SCORES_KEPT = 150
HUBER = 1.345  # 95 % efficient where errors are normal
OUTLIER = 5.0  # deviations beyond which a run says nothing about the cell
LEAST_NOISE = 1e-3  # a thousandth: what a clock or a counter may be off by


@dataclass(slots=True)
class _Leaf:
    """A narrowest cell while it is fitted."""

    path: tuple[str, ...]
    values: list[float]  # in order
    places: list[int]  # of the values among all errors
    recent: list[float] = field(default_factory=list)  # since the last change in bias
    weights: list[float] = field(default_factory=list)
    noise: float = 0.0
    mean: float = 0.0
    effective: float = 0.0  # runs that the weighted mean is worth


def fit(code: str, errors: Iterable[RunError], *, half_life_runs: float = HALF_LIFE_RUNS, with_scores: bool = True) -> Fit:
    """Fit a driver's cells to what was measured."""
    assumed = prior(code)
    grouped: dict[tuple[str, ...], tuple[list[float], list[int]]] = {}
    for place, error in enumerate(errors):
        if len(error.path) != len(assumed.between) - 1:
            raise ValueError(f"a path has {len(assumed.between) - 1} cells, not {len(error.path)}")
        values, places = grouped.setdefault(error.path, ([], []))
        values.append(error.log_ratio)
        places.append(place)
    leaves = [_Leaf(path, values[-MEMORY_RUNS:], places[-MEMORY_RUNS:]) for path, (values, places) in grouped.items()]
    if not leaves:
        return Fit(code=code, between=assumed.between)
    decay = 0.5 ** (1 / half_life_runs)
    for leaf in leaves:
        change = drift.last_change(leaf.values)
        leaf.recent = leaf.values[change.since :] if change else leaf.values
        leaf.weights = [decay ** (len(leaf.recent) - 1 - index) for index in range(len(leaf.recent))]
    _noises(leaves, assumed)
    for leaf in leaves:
        leaf.mean, leaf.effective = robust_mean(leaf.recent, leaf.weights, leaf.noise)
    tree = _Tree(leaves, assumed)
    scores = _scores(leaves, tree, decay) if with_scores else {}
    return Fit(code=code, between=tree.between, cells=tree.cells(scores))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value that has half of the weight on either side (the middle of two where it falls between them)."""
    order = sorted(range(len(values)), key=values.__getitem__)
    half = math.fsum(weights) / 2
    cumulative = 0.0
    for place, index in enumerate(order):
        cumulative += weights[index]
        if cumulative > half * (1 + 1e-12):
            return values[index]
        if cumulative >= half * (1 - 1e-12) and place + 1 < len(order):
            return (values[index] + values[order[place + 1]]) / 2
    return values[order[-1]]


def robust_mean(values: Sequence[float], weights: Sequence[float], deviation: float) -> tuple[float, float]:
    """Huber's mean in one step from the median, and how many equal runs it is worth (Kish).

    Beyond ``OUTLIER`` deviations a run has no say, if there are at least three to tell which one is out.
    """
    centre = weighted_median(values, weights)
    trusted = []
    for value, weight in zip(values, weights, strict=True):
        distance = abs(value - centre) / deviation
        far = distance > OUTLIER and len(values) >= 3
        trusted.append(0.0 if far else weight * min(1.0, HUBER / distance) if distance > 0 else weight)
    total = math.fsum(trusted)
    if total <= 0:
        return centre, 1.0
    mean = math.fsum(weight * value for weight, value in zip(trusted, values, strict=True)) / total
    return mean, total * total / math.fsum(weight * weight for weight in trusted)


def _median_deviation(residuals: Sequence[float], weights: Sequence[float]) -> float:
    """The standard deviation by the median absolute residual (1.4826 for normal errors)."""
    return 1.482602218505602 * weighted_median([abs(residual) for residual in residuals], weights)


def _noises(leaves: Sequence[_Leaf], assumed: Prior) -> None:
    """Each leaf's noise: its own deviation, held by that of all leaves, held by the prior."""
    judged = [leaf for leaf in leaves if len(leaf.recent) >= 2]
    residuals: list[list[float]] = []
    freedoms: list[float] = []
    for leaf in judged:
        n = math.fsum(leaf.weights) ** 2 / math.fsum(weight * weight for weight in leaf.weights)
        centre = weighted_median(leaf.recent, leaf.weights)
        residuals.append([(value - centre) * math.sqrt(n / (n - 1)) for value in leaf.recent])
        freedoms.append(n - 1)
    pooled = assumed.within**2
    if judged:
        everything = [residual for values in residuals for residual in values]
        own = _median_deviation(everything, [weight for leaf in judged for weight in leaf.weights]) ** 2
        freedom = math.fsum(freedoms)
        pooled = (assumed.weight * pooled + freedom * own) / (assumed.weight + freedom)
    for leaf in leaves:
        leaf.noise = max(math.sqrt(pooled), LEAST_NOISE)
    for leaf, values, freedom in zip(judged, residuals, freedoms, strict=True):
        own = _median_deviation(values, leaf.weights) ** 2
        leaf.noise = max(math.sqrt((2 * assumed.weight * pooled + freedom * own) / (2 * assumed.weight + freedom)), LEAST_NOISE)


@dataclass(slots=True)
class _Node:
    """A cell of the tree: what its own data say (mean, variance), before and after its parent is heard."""

    path: tuple[str, ...]
    depth: int
    children: list[_Node] = field(default_factory=list)
    n: int = 0
    noise: float = 0.0  # pooled over its runs
    mean: float = 0.0  # of the data below it
    variance: float = math.inf
    precision: float = 0.0  # sum over children of 1 / (variance + tau^2), and of mean times that
    moment: float = 0.0
    posterior: float = 0.0
    posterior_variance: float = 0.0


class _Tree:
    """The cells above the leaves, and the variances between them."""

    def __init__(self, leaves: Sequence[_Leaf], assumed: Prior) -> None:
        self._nodes: dict[tuple[str, ...], _Node] = {(): _Node((), 0)}
        depth = len(assumed.between) - 1
        for leaf in leaves:
            node = self._node(leaf.path)
            node.n, node.noise = len(leaf.recent), leaf.noise
            node.mean, node.variance = leaf.mean, leaf.noise**2 / leaf.effective
        between = list(assumed.between)
        levels: list[list[_Node]] = [[] for _ in range(depth + 1)]
        for node in self._nodes.values():
            levels[node.depth].append(node)
        for level in range(depth, 0, -1):
            between[level] = _between(levels[level - 1], assumed.between[level], assumed.weight)
            for parent in levels[level - 1]:
                _absorb(parent, between[level])
        self.between = tuple(between)
        for level in range(depth + 1):
            for node in levels[level]:
                above = (0.0, 0.0) if level == 0 else self._posterior(node.path[:-1])
                node.posterior, node.posterior_variance = _shrink(node.mean, node.variance, between[level], *above)

    def _node(self, path: tuple[str, ...]) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            node = self._nodes[path] = _Node(path, len(path))
            self._node(path[:-1]).children.append(node)
        return node

    def _posterior(self, path: tuple[str, ...]) -> tuple[float, float]:
        node = self._nodes[path]
        return node.posterior, node.posterior_variance

    def without(self, path: tuple[str, ...]) -> tuple[float, float]:
        """Mean and variance of a leaf's parent had the leaf never been seen."""
        # The leaf's message is taken out of its parent, the change out of the grandparent, and so on up.
        child: tuple[float, float] | None = None
        stripped: list[tuple[float, float]] = []
        below = self._nodes[path]
        for depth in range(len(path) - 1, -1, -1):
            node = self._nodes[path[:depth]]
            tau = self.between[depth + 1] ** 2
            weight = 1 / (below.variance + tau)
            precision, moment = node.precision - weight, node.moment - weight * below.mean
            if child is not None:
                precision += 1 / (child[1] + tau)
                moment += child[0] / (child[1] + tau)
            # A rounding residue is no information.
            child = (moment / precision, 1 / precision) if precision > 1e-9 * node.precision else None
            stripped.append(child if child is not None else (0.0, math.inf))
            below = node
        mean, variance = 0.0, 0.0
        for depth, (own, own_variance) in enumerate(reversed(stripped)):
            mean, variance = _shrink(own, own_variance, self.between[depth], mean, variance)
        return mean, variance

    def cells(self, scores: Mapping[tuple[str, ...], Sequence[float]]) -> dict[str, Cell]:
        """Every cell by name."""
        return {
            _name(path): Cell(
                parent=_name(path[:-1]) if path else None,
                depth=node.depth,
                n=node.n,
                mean=node.posterior,
                variance=node.posterior_variance,
                noise=node.noise,
                scores=tuple(scores.get(path, ())),
            )
            for path, node in self._nodes.items()
        }


def _name(path: tuple[str, ...]) -> str:
    return path[-1] if path else GLOBAL


def _between(parents: Sequence[_Node], assumed: float, weight: float) -> float:
    """Deviation of cells about their parents: the variance between children less what their own errors explain."""
    freedom, excess = 0, 0.0
    for parent in parents:
        k = len(parent.children)
        if k < 2:
            continue
        centre = sum(child.mean for child in parent.children) / k
        spread = sum((child.mean - centre) ** 2 for child in parent.children)
        explained = sum(child.variance for child in parent.children) / k
        freedom += k - 1
        excess += spread - (k - 1) * explained
    return math.sqrt((weight * assumed**2 + max(0.0, excess)) / (weight + freedom))


def _absorb(parent: _Node, between: float) -> None:
    """Sum up what the children say about their parent."""
    for child in parent.children:
        weight = 1 / (child.variance + between**2)
        parent.precision += weight
        parent.moment += weight * child.mean
        parent.n += child.n
        parent.noise += child.n * child.noise**2
    parent.mean, parent.variance = parent.moment / parent.precision, 1 / parent.precision
    parent.noise = math.sqrt(parent.noise / parent.n)


def _shrink(mean: float, variance: float, between: float, above: float, above_variance: float) -> tuple[float, float]:
    """The posterior of a cell from its own mean and its parent's posterior."""
    if variance == math.inf:
        return above, above_variance + between**2
    own = between**2 / (between**2 + variance)
    return own * mean + (1 - own) * above, own * variance + (1 - own) ** 2 * above_variance


def _scores(leaves: Sequence[_Leaf], tree: _Tree, decay: float) -> dict[tuple[str, ...], list[float]]:
    """Each run's error as its cell would have been predicted before it, by cell and every wider one, oldest first."""
    scores: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for leaf in leaves:
        own = list(zip(leaf.places, _causal_scores(leaf, tree.without(leaf.path), tree.between[-1], decay), strict=True))
        for depth in range(len(leaf.path) + 1):
            scores.setdefault(leaf.path[:depth], []).extend(own)
    return {path: [score for _, score in sorted(placed)[-SCORES_KEPT:]] for path, placed in scores.items()}


def _causal_scores(leaf: _Leaf, parent: tuple[float, float], between: float, decay: float) -> list[float]:
    scores = []
    monitor = drift.Monitor()
    total = squares = moment = 0.0
    values: list[float] = []
    for index, value in enumerate(leaf.values):
        variance = leaf.noise**2 * squares / (total * total) if total else math.inf
        mean, uncertainty = _shrink(moment / total if total else 0.0, variance, between, *parent)
        deviation = math.sqrt(uncertainty + leaf.noise**2)
        scores.append((value - mean) / deviation)
        # The same influence a run has on the final mean; a cell that is new may first find its place.
        reach = 1.6 * leaf.noise if total >= 3 else 2 * deviation
        taken = max(mean - reach, min(mean + reach, value))
        values.append(taken)
        change = monitor.update(value)
        if change is not None:
            values[change.since : index + 1] = leaf.values[change.since : index + 1]
            total = squares = moment = 0.0
            history = values[change.since :]
        else:
            history = [taken]
        for entry in history:
            total, squares, moment = total * decay + 1, squares * decay * decay + 1, moment * decay + entry
    return scores
