"""What every layer may run with: its candidates, at all the shapes that are tuned for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from softneuro.codegen.target import Target
from softneuro.control import BodyOp
from softneuro.graph import Graph
from softneuro.plan.defaults import choice_of
from softneuro.plan.lower import fitted, problem_of
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.candidates import candidates, narrow_dtypes_of
from softneuro.tuning.restrict import Rule, restrict
from softneuro.types import DType

__all__ = ["Offer", "Offers", "layer_names", "offers_of"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offer:
    """A layer's problem at each set of shapes, and the choices that fit all of them.

    A problem is None where the layer is not there (its result was known before the run), where its types are not known
    before the run, and where it has no choice in common with the sets before: it runs with its default then.
    """

    problems: tuple[Problem | None, ...]
    choices: tuple[Choice, ...]


Offers = Mapping[str, Offer]


def layer_names(graphs: Sequence[Graph]) -> list[str]:
    """The names of the layers of all graphs, in order."""
    return list(dict.fromkeys(layer.name for graph in graphs for layer in graph.layers))


def offers_of(graphs: Sequence[Graph], target: Target, threads: int, rules: Sequence[Rule] = (),
              dtypes: Collection[DType] = (DType.F32,)) -> dict[str, Offer]:
    """Name to offer for every layer that has a choice; graphs: the same model specialised for each set of shapes.

    dtypes: what tensors may be kept as besides their own type, and operands rounded to.
    Raises InputError when the rules do not fit (see `restrict`).
    """
    problems: dict[str, list[Problem | None]] = {}
    for index, graph in enumerate(graphs):
        for layer in graph.layers:
            if not isinstance(layer.op, BodyOp):  # which graph runs depends on the data
                problem = problem_of(layer, graph, threads)
                if problem is not None:
                    problems.setdefault(layer.name, [None] * len(graphs))[index] = problem
    listing = _Listing(target, frozenset(dtypes))
    found = {name: _offer(name, of_layer, listing.of, target) for name, of_layer in problems.items()}
    if not rules:
        return found
    allowed = restrict(rules, {name: offer.choices for name, offer in found.items()}, layer_names(graphs))
    return {name: replace(offer, choices=allowed[name]) for name, offer in found.items()}


class _Listing:
    """Lists the allowed candidates of every problem once."""

    def __init__(self, target: Target, dtypes: frozenset[DType]) -> None:
        self._target, self._dtypes = target, dtypes
        self._known: dict[tuple[Problem, tuple[Quantisation | None, ...]], tuple[Choice, ...]] = {}

    def of(self, problem: Problem) -> tuple[Choice, ...]:
        """The candidates that keep tensors and operands only as their own type or as what is allowed, or else all."""
        key = (problem, problem.quantisations)
        if key not in self._known:
            found = candidates(problem, self._target)
            allowed = [c for c in found if narrow_dtypes_of(problem, c.routine, c.signature) <= self._dtypes]
            self._known[key] = tuple(map(choice_of, allowed or found))
        return self._known[key]


def _offer(name: str, problems: Sequence[Problem | None], listed: Callable[[Problem], tuple[Choice, ...]],
           target: Target) -> Offer:
    """The candidates of every problem that can compute the others too, though others may be sure to be faster there."""
    kept = list(problems)
    common: list[Choice] = []
    met: list[Problem] = []
    for index, problem in enumerate(problems):
        if problem is None or problem in met:
            continue
        new = [choice for choice in listed(problem) if choice not in common]
        fitting = [choice for choice in common if choice in listed(problem) or _fits(choice, problem, target)]
        fitting += [choice for choice in new if all(_fits(choice, other, target) for other in met)]
        if not fitting:
            _log.info("layer %r runs with its default routine at shapes set %d: no routine fits both it and the others",
                      name, index + 1)
            kept = [None if p == problem else p for p in kept]
            continue
        common, met = fitting, [*met, problem]
    return Offer(tuple(kept), tuple(common))


def _fits(choice: Choice, problem: Problem, target: Target) -> bool:
    """Whether a choice made for other shapes can compute the problem, natively and as it is."""
    return not choice.routine.endswith(".reference") and fitted(choice, problem, target) == choice
