"""Where boxes and edges of a drawn graph go: a layered layout, top to bottom.

The steps are those of Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(1981): ranks by longest paths, orders within ranks by barycentres, then coordinates. For the last, each rank is placed
as near as its order allows to the middle of its neighbours, in the sense of least squares (isotonic regression by
pooling adjacent violators). An edge over several ranks passes a bend in each; edges of one source share their bends.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Box", "Drawing", "layered"]

_ORDER_SWEEPS, _PLACE_SWEEPS, _LAST_SWEEPS = 10, 16, 4
_GAP_X, _GAP_Y, _BEND_WIDTH = 22.0, 26.0, 10.0
_SKIP_WEIGHT = 0.01
"""How much a bend pulls, against a box, where its source has other edges: a chain with an edge around it stays straight."""
_STEEPNESS, _MOST_GAP_Y = 0.07, 110.0
"""Ranks stand further apart, up to the most, where edges go far to the side."""


@dataclass(frozen=True)
class Box:
    """Size of a node, in pixels."""

    width: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """A layout, in pixels from its top left corner.

    centres: the middle of each box. bands: top and bottom of each rank. rank: the rank of each box. bends: for each box
    the x at which its edges pass the ranks after its own, as far as they go before they end. width, height: of it all.
    """

    centres: tuple[tuple[float, float], ...]
    bands: tuple[tuple[float, float], ...]
    rank: tuple[int, ...]
    bends: tuple[tuple[float, ...], ...]
    width: float
    height: float


@dataclass
class _Net:
    """Boxes and bends as points of ranks; every link goes from one rank to the next."""

    widths: list[float]
    weights: list[float]
    ranks: list[list[int]]
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)
    bends: list[list[int]] = field(default_factory=list)


def layered(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Lay out boxes joined by edges (source, target); the target must have the higher index."""
    if not boxes:
        return Drawing((), (), (), (), 0.0, 0.0)
    unique = sorted(set(edges))
    rank = _ranks(len(boxes), unique)
    net = _net(boxes, unique, rank)
    _order(net)
    x = _places(net)
    left = min(x[i] - net.widths[i] / 2 for i in range(len(x)))
    x = [value - left for value in x]
    bands = _bands(net, boxes, x)
    return Drawing(
        tuple((x[i], (bands[rank[i]][0] + bands[rank[i]][1]) / 2) for i in range(len(boxes))),
        tuple(bands), tuple(rank), tuple(tuple(x[bend] for bend in chain) for chain in net.bends),
        max(x[i] + net.widths[i] / 2 for i in range(len(x))), bands[-1][1],
    )  # fmt: skip


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path to each box; then what leads nowhere else goes down to just above the box that it leads to."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    rank, tied = [0] * count, [False] * count  # tied: to what stands above, which has other targets
    for i in range(count):
        rank[i] = 1 + max((rank[j] for j in above[i]), default=-1)
        tied[i] = any(tied[j] or len(below[j]) > 1 for j in above[i])
    for i in reversed(range(count)):
        if not tied[i] and below[i]:
            rank[i] = min(rank[j] for j in below[i]) - 1
    least = min(rank)
    return [level - least for level in rank]


def _net(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], rank: Sequence[int]) -> _Net:
    """The boxes with bends in between."""
    count = len(boxes)
    net = _Net([box.width for box in boxes], [1.0] * count, [[] for _ in range(max(rank) + 1)],
               [[] for _ in range(count)], [[] for _ in range(count)], [[] for _ in range(count)])  # fmt: skip
    for i in range(count):
        net.ranks[rank[i]].append(i)
    targets = Counter(source for source, _ in edges)
    for source, target in edges:
        chain = net.bends[source]
        for level in range(rank[source] + 1 + len(chain), rank[target]):
            bend = len(net.widths)
            net.widths.append(_BEND_WIDTH)
            net.weights.append(1.0 if targets[source] == 1 else _SKIP_WEIGHT)
            net.above.append([])
            net.below.append([])
            net.ranks[level].append(bend)
            _link(net, chain[-1] if chain else source, bend)
            chain.append(bend)
        passed = rank[target] - rank[source] - 1
        _link(net, chain[passed - 1] if passed else source, target)
    return net


def _link(net: _Net, upper: int, lower: int) -> None:
    net.below[upper].append(lower)
    net.above[lower].append(upper)


def _order(net: _Net) -> None:
    """Sort each rank by the mean position of its neighbours, down and up in turn; the order with fewest crossings stays."""
    position = {i: float(p) for row in net.ranks for p, i in enumerate(row)}
    best, fewest = [list(row) for row in net.ranks], _crossings(net)
    for sweep in range(_ORDER_SWEEPS):
        down = sweep % 2 == 0
        neighbours = net.above if down else net.below
        for row in net.ranks if down else reversed(net.ranks):
            row.sort(key=lambda i: _mean([position[j] for j in neighbours[i]], position[i]))
            for p, i in enumerate(row):
                position[i] = float(p)
        crossings = _crossings(net)
        if crossings < fewest:
            best, fewest = [list(row) for row in net.ranks], crossings
        if fewest == 0:
            break
    net.ranks[:] = best


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(net: _Net) -> int:
    """How many pairs of links between neighbouring ranks cross."""
    crossings = 0
    for upper, lower in zip(net.ranks, net.ranks[1:], strict=False):
        position = {i: p for p, i in enumerate(lower)}
        seen: list[int] = []
        for i in upper:
            ends = [position[j] for j in net.below[i]]
            crossings += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return crossings


def _places(net: _Net) -> list[float]:
    """The x of every point."""
    x = [0.0] * len(net.widths)
    for row in net.ranks:
        _place(net, row, [0.0] * len(row), x)
    for sweep in range(_PLACE_SWEEPS + _LAST_SWEEPS):
        last, down = sweep >= _PLACE_SWEEPS, sweep % 2 == 0
        straight = _straightened(net, x) if last else {}
        for row in net.ranks if down else reversed(net.ranks):
            neighbours = (net.above, net.below) if last else (net.above,) if down else (net.below,)
            _place(net, row, [straight.get(i, _middle(net, i, x, neighbours)) for i in row], x)
    return x


def _middle(net: _Net, i: int, x: Sequence[float], neighbours: Sequence[Sequence[Sequence[int]]]) -> float:
    """The weighted mean of a point's neighbours; where it is, when it has none."""
    near = [j for side in neighbours for j in side[i]]
    weight = sum(net.weights[j] for j in near)
    return sum(net.weights[j] * x[j] for j in near) / weight if near else x[i]


def _straightened(net: _Net, x: Sequence[float]) -> dict[int, float]:
    """For each bend the place of that bend of its chain which is furthest to the side: then an edge goes straight."""
    return {
        bend: max((x[other] for other in chain), key=lambda place: abs(place - x[source]))
        for source, chain in enumerate(net.bends) for bend in chain
    }  # fmt: skip


def _place(net: _Net, row: Sequence[int], wanted: Sequence[float], x: list[float]) -> None:
    """Set the x of one rank's points: as near to what is wanted as their order and sizes allow."""
    offsets, offset = [], 0.0
    for before, i in zip((None, *row), row, strict=False):
        if before is not None:
            offset += (net.widths[before] + net.widths[i]) / 2 + _GAP_X
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, points
    for i, target, shift in zip(row, wanted, offsets, strict=True):
        mean, weight, points = target - shift, net.weights[i], 1
        while blocks and blocks[-1][0] > mean:
            other, other_weight, other_points = blocks.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, points = weight + other_weight, points + other_points
        blocks.append((mean, weight, points))
    means = [mean for mean, _, points in blocks for _ in range(points)]
    for i, mean, shift in zip(row, means, offsets, strict=True):
        x[i] = mean + shift


def _bands(net: _Net, boxes: Sequence[Box], x: Sequence[float]) -> list[tuple[float, float]]:
    """Top and bottom of every rank."""
    bands: list[tuple[float, float]] = []
    top = 0.0
    for row in net.ranks:
        bottom = top + max((boxes[i].height for i in row if i < len(boxes)), default=0.0)
        bands.append((top, bottom))
        far = max((abs(x[i] - x[j]) for i in row for j in net.below[i]), default=0.0)
        top = bottom + min(_MOST_GAP_Y, max(_GAP_Y, _STEEPNESS * far + _GAP_Y / 2))
    return bands
