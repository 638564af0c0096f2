"""What everything costs: the candidates of every layer and possible adapt, measured once for each distinct problem."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from softneuro.codegen.precompile import precompile
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.control import BodyOp
from softneuro.errors import SoftneuroError
from softneuro.graph import Graph
from softneuro.ops.adapt import Adapt
from softneuro.plan.defaults import choice_of
from softneuro.plan.lower import problem_of
from softneuro.plan.plan import Choice, adapt_name
from softneuro.problem import Problem
from softneuro.routines.candidates import Candidate, candidates, reference_routine
from softneuro.routines.routine import Signature
from softneuro.runtime.team import Team
from softneuro.tuning.measure import measure, measure_host
from softneuro.tuning.profile import Measurement, Profile, routine_digest
from softneuro.types import Format, Layout

__all__ = ["Costs"]

_log = logging.getLogger(__name__)
_FREE = Measurement(0.0)


class _Bench:
    """A distinct problem with its candidates and what is known of their times."""

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem = problem
        self.times: dict[int, Measurement] = {}
        self.keys: dict[int, str] = {}
        self.choices: list[Choice] = []
        self.kernels: dict[int, tuple[KernelSpec, ...]] = {}
        self.failed: set[int] = set()
        self.host = False
        for candidate in candidates(problem, target):
            self._add(candidate, target)

    def _add(self, candidate: Candidate, target: Target) -> None:
        choice = choice_of(candidate)
        built = candidate.routine.build(self.problem, candidate.signature, candidate.schedule, target)
        index = len(self.choices)
        self.choices.append(choice)
        self.host |= built.host
        self.kernels[index] = tuple(launch.kernel for launch in built.launches)
        if built.alias is not None:
            self.times[index] = _FREE
        self.keys[index] = Profile.key(self.problem, choice, routine_digest(candidate.routine, built))

    def recall(self, profile: Profile) -> None:
        """Take over what the profile knows."""
        for index, key in self.keys.items():
            known = profile.get(key)
            if known is not None:
                self.times[index] = known

    def default(self) -> Choice:
        """The first candidate that did not fail; the reference when all did."""
        reference = reference_routine(type(self.problem.op))
        spare = choice_of(Candidate(reference, reference.signatures(self.problem)[0], {}))
        return next((choice for index, choice in enumerate(self.choices) if index not in self.failed), spare)

    def missing(self) -> list[int]:
        """Candidates without a time."""
        return [index for index in range(len(self.choices)) if index not in self.times]


class Costs:
    """Times of all candidates of a specialised graph, for a number of threads."""

    def __init__(self, graph: Graph, target: Target, threads: int, profile: Profile) -> None:
        self._graph, self._target, self._threads, self._profile = graph, target, threads, profile
        self._benches: dict[Problem, _Bench] = {}
        self._layers: dict[str, _Bench] = {}
        self._adapts: dict[str, _Bench] = {}
        for layer in graph.layers:
            problem = problem_of(layer, graph, threads)
            if problem is not None and not isinstance(layer.op, BodyOp):  # which graph runs depends on the data
                self._layers[layer.name] = self._bench(problem)
        self._add_adapts()

    def _bench(self, problem: Problem) -> _Bench:
        if problem not in self._benches:
            bench = self._benches[problem] = _Bench(problem, self._target)
            bench.recall(self._profile)
        return self._benches[problem]

    def _add_adapts(self) -> None:
        """A bench for every tensor that some candidate makes or reads in a format other than row-major."""
        wanted: dict[str, set[Format]] = {}
        for layer in self._graph.layers:
            bench = self._layers.get(layer.name)
            for choice in bench.choices if bench else ():
                for name, format_ in zip(layer.inputs, choice.signature.inputs, strict=False):
                    if name and format_ is not None and name not in self._graph.constants:
                        wanted.setdefault(name, set()).add(format_)
                for name, format_ in zip((n for n in layer.outputs if n), choice.signature.outputs, strict=False):
                    wanted.setdefault(name, set()).add(format_)
        for name, formats in wanted.items():
            if any(f.layout is Layout.CHL for f in formats):
                type_ = self._graph.types[name]
                self._adapts[name] = self._bench(Problem(Adapt(), (type_,), (type_,), (False,), self._threads))

    def compile_all(self, report: Callable[[int, int, str], None]) -> None:
        """Compile the kernels of all candidates that are to be measured."""
        specs = [spec for bench in self._benches.values() for i in bench.missing() for spec in bench.kernels[i]]
        precompile(specs, self._target, report)

    def measure_all(self, deadline: float | None, report: Callable[[int, int, str], None]) -> None:
        """Measure what the profile does not know. After the deadline, what is left gets no time at all."""
        footprint = sum(array.nbytes for array in self._graph.constants.values())
        todo = [bench for bench in self._benches.values() if bench.missing()]
        team = Team(self._threads, self._target)
        for number, bench in enumerate(todo):
            if deadline is not None and time.monotonic() > deadline:
                break
            report(number, len(todo), bench.problem.key())
            self._measure(bench, team, footprint)
        report(len(todo), len(todo), "")

    def _measure(self, bench: _Bench, team: Team, footprint: int) -> None:
        if bench.host:
            self._finish(bench, bench.missing()[0], measure_host(bench.problem))
            return
        missing = {id(bench.choices[i]): i for i in bench.missing()}

        def finished(choice: Choice, result: Measurement | SoftneuroError) -> None:
            if isinstance(result, Measurement):
                self._finish(bench, missing[id(choice)], result)
            else:
                bench.failed.add(missing[id(choice)])
                _log.warning("%s is left out: %s", bench.problem.key(), result)

        measure(bench.problem, [bench.choices[i] for i in missing.values()], self._target, team, footprint=footprint,
                finished=finished)

    def _finish(self, bench: _Bench, index: int, measurement: Measurement) -> None:
        bench.times[index] = measurement
        self._profile.add(bench.keys[index], measurement)

    def layer_times(self) -> Mapping[str, list[tuple[Choice, float]]]:
        """Measured choices of every layer that has any; one with none keeps its default, at cost 0."""
        return {
            name: [(bench.choices[i], m.ns) for i, m in sorted(bench.times.items())] or [(bench.default(), 0.0)]
            for name, bench in self._layers.items()
        }

    def _fastest_adapt(self, bench: _Bench, signature: Signature) -> tuple[Choice, float]:
        fitting = [i for i, choice in enumerate(bench.choices) if choice.signature == signature]
        times = {i: bench.times[i].ns if i in bench.times else 0.0 for i in fitting if i not in bench.failed}
        if not times:
            raise SoftneuroError(f"{bench.problem.key()}: no routine for {signature} gives a right result")
        best = min(times, key=times.__getitem__)
        return bench.choices[best], times[best]

    def adapt_ns(self, tensor: str, origin: Format, wanted: Format) -> float:
        """The cost of converting a tensor."""
        return self._fastest_adapt(self._adapts[tensor], Signature((origin,), (wanted,)))[1]

    def adapt_choices(self) -> dict[str, Choice]:
        """The fastest routine for every conversion that may occur."""
        result = {}
        for name, bench in self._adapts.items():
            for signature in {choice.signature for choice in bench.choices}:
                result[adapt_name(name, signature.outputs[0])] = self._fastest_adapt(bench, signature)[0]
        return result

    def failed(self, choices: Mapping[str, Choice]) -> bool:
        """Whether any of the choices could not be run or gave a wrong result."""
        layers = [(name, bench, i) for name, bench in self._layers.items() for i in bench.failed]
        adapts = [
            (adapt_name(name, bench.choices[i].signature.outputs[0]), bench, i)
            for name, bench in self._adapts.items() for i in bench.failed
        ]  # fmt: skip
        return any(choices.get(name) == bench.choices[i] for name, bench, i in layers + adapts)

    def chosen_ns(self, choices: Mapping[str, Choice]) -> dict[str, float]:
        """Nanoseconds of every chosen layer."""
        result = {}
        for name, bench in self._layers.items():
            for index, measurement in bench.times.items():
                if bench.choices[index] == choices.get(name):
                    result[name] = measurement.ns
        return result
