"""What everything costs: the choices of every layer and possible adapt, measured once for each distinct problem."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from softneuro.codegen.precompile import precompile
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.errors import ProfileError, ResourceLimitError, SoftneuroError
from softneuro.graph import Graph
from softneuro.plan.defaults import choice_of
from softneuro.plan.lower import adapt_problem
from softneuro.plan.plan import Choice, Measured, adapt_name
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates
from softneuro.routines.routine import Signature
from softneuro.runtime.team import Team
from softneuro.tuning.bench import Bench
from softneuro.tuning.measure import Effort, measure, measure_host
from softneuro.tuning.offers import Offers
from softneuro.tuning.profile import Measurement, Profile
from softneuro.tuning.select import Case
from softneuro.types import Format

__all__ = ["Costs", "Site"]

_log = logging.getLogger(__name__)
_NAMED = 5

Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Site:
    """A layer or a tensor that may be converted: its choices, and its problem's bench for each set of shapes (None where
    it has no problem)."""

    choices: tuple[Choice, ...]
    benches: tuple[Bench | None, ...]

    def timed(self) -> list[tuple[Choice, tuple[float, ...]]]:
        """The choices with a time for every set, 0 for the sets at which none of them was measured."""
        times = [[bench.ns(c) if bench else None for c in self.choices] for bench in self.benches]
        known = [row if any(ns is not None for ns in row) else [0.0] * len(row) for row in times]
        if all(ns is None for row in times for ns in row):
            return []
        columns = zip(*known, strict=True)
        return [
            (choice, tuple(ns for ns in column if ns is not None))
            for choice, column in zip(self.choices, columns, strict=True) if None not in column and not self.has_failed(choice)
        ]  # fmt: skip

    def has_failed(self, choice: Choice) -> bool:
        """Whether a choice could not be run or gave a wrong result for any set."""
        return any(bench.has_failed(choice) for bench in self.benches if bench)

    def default(self) -> Choice:
        """The first choice that did not fail; the reference when all did."""
        spare = next(bench.spare() for bench in self.benches if bench)
        return next((choice for choice in self.choices if not self.has_failed(choice)), spare)

    def fastest(self, signature: Signature) -> tuple[Choice, tuple[float, ...]]:
        """The choice of a signature that takes the least time in all, and its time for each set (0 when not measured).

        Raises SoftneuroError when all of them failed.
        """
        timed = [(choice, times) for choice, times in self.timed() if choice.signature == signature]
        if timed:
            return min(timed, key=lambda pair: sum(pair[1]))
        for choice in self.choices:
            if choice.signature == signature and not self.has_failed(choice):
                return choice, (0.0,) * len(self.benches)
        problem = next(bench.problem for bench in self.benches if bench)
        raise SoftneuroError(f"{problem.key()}: no routine for {signature} gives a right result")


class Costs:
    """Times of all choices of a model for a number of threads.

    graphs: the model specialised for each set of shapes; offers: what each layer may run with.
    """

    def __init__(self, graphs: Sequence[Graph], offers: Offers, target: Target, threads: int, profile: Profile) -> None:
        self._graphs, self._target, self._threads, self._profile = graphs, target, threads, profile
        self._benches: dict[Problem, Bench] = {}
        self.layers = {
            name: Site(offer.choices, tuple(self._bench(p, offer.choices) if p else None for p in offer.problems))
            for name, offer in offers.items()
        }
        self.adapts = {name: self._adapt_site(name, formats) for name, formats in self._converted().items()}

    @property
    def benches(self) -> Sequence[Bench]:
        """One for every distinct problem."""
        return tuple(self._benches.values())

    def _bench(self, problem: Problem, choices: Sequence[Choice]) -> Bench:
        bench = self._benches.get(problem)
        if bench is None:
            bench = self._benches[problem] = Bench(problem, self._target)
        bench.problem = problem if problem.quantisations else bench.problem  # the quantised one serves all candidates
        for choice in choices:
            bench.add(choice, self._profile)
        return bench

    def _converted(self) -> dict[str, set[Format]]:
        """The tensors that some choice makes or reads in a format other than row-major, with all the formats that occur."""
        wanted: dict[str, set[Format]] = {}
        for index, graph in enumerate(self._graphs):
            for layer in graph.layers:
                site = self.layers.get(layer.name)
                for choice in site.choices if site and site.benches[index] else ():
                    read = zip(layer.inputs, choice.signature.inputs, strict=False)
                    made = zip((name for name in layer.outputs if name), choice.signature.outputs, strict=False)
                    for name, format_ in (*read, *made):
                        if name and format_ is not None and name not in graph.constants:
                            wanted.setdefault(name, {Format.row_major(graph.types[name])}).add(format_)
        return {name: formats for name, formats in wanted.items() if len(formats) > 1}

    def _adapt_site(self, name: str, formats: Collection[Format]) -> Site:
        problems = [
            adapt_problem(name, graph, self._threads) if name in graph.types and name not in graph.constants else None
            for graph in self._graphs
        ]
        offered = {p: tuple(map(choice_of, candidates(p, self._target))) for p in problems if p}
        common = tuple(
            choice for choice in next(iter(offered.values())) if all(choice in choices for choices in offered.values())
            and {*choice.signature.inputs, *choice.signature.outputs}.issubset(formats)
        )  # fmt: skip
        return Site(common, tuple(self._bench(p, common) if p else None for p in problems))

    # ---- measuring

    def missing_kernels(self) -> list[KernelSpec]:
        """The kernels of all candidates that are to be measured."""
        return [spec for bench in self._benches.values() for i in bench.missing() for spec in bench.kernels[i]]

    def require_known(self) -> None:
        """Raise ProfileError when any candidate would have to be measured."""
        missing = {bench: len(bench.missing()) for bench in self._benches.values() if bench.missing()}
        if not missing:
            return
        sites = (*self.layers.items(), *((f"adapt {name}", site) for name, site in self.adapts.items()))
        names = [name for name, site in sites if any(bench in missing for bench in site.benches)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise ProfileError(
            f"profile {str(self._profile.path)!r}: lacks {sum(missing.values())} measurements of {len(missing)} problems, of "
            f"layers {', '.join(names[:_NAMED])}{more}: needed one that was made on this machine, with this version, for these "
            "threads and shapes, or tuning without error on miss, which measures them"
        )

    def compile_all(self, report: Report) -> None:
        """Compile the kernels of all candidates that are to be measured."""
        precompile(self.missing_kernels(), self._target, report)

    def measure_all(self, deadline: float | None, effort: Effort, report: Report) -> None:
        """Measure what the profile does not know; ``report`` counts candidates, those that are known included.

        After the deadline, what is left gets no time at all.
        """
        footprint = sum(array.nbytes for array in self._graphs[0].constants.values())
        todo = [bench for bench in self._benches.values() if bench.missing()]
        total = sum(len(bench.choices) - bench.free for bench in self._benches.values())
        team = Team(self._threads, self._target)
        for bench in todo:
            if deadline is not None and time.monotonic() > deadline:
                break
            report(total - self.missing_count(), total, f"{bench.problem.op.name} {', '.join(map(str, bench.problem.outputs))}")
            self._measure(bench, team, footprint, effort)
        report(total - self.missing_count(), total, "")

    def missing_count(self) -> int:
        """How many candidates are to be measured."""
        return sum(len(bench.missing()) for bench in self._benches.values())

    def _measure(self, bench: Bench, team: Team, footprint: int, effort: Effort) -> None:
        if bench.host:
            self._finish(bench, bench.missing()[0], measure_host(bench.problem))
            return
        missing = {id(bench.choices[i]): i for i in bench.missing()}

        def finished(choice: Choice, result: Measurement | SoftneuroError) -> None:
            if isinstance(result, Measurement):
                self._finish(bench, missing[id(choice)], result)
            else:
                self._fail(bench, missing[id(choice)], result)

        measure(bench.problem, [bench.choices[i] for i in missing.values()], self._target, team, footprint=footprint,
                effort=effort, finished=finished)  # fmt: skip

    def _finish(self, bench: Bench, index: int, measurement: Measurement) -> None:
        bench.times[index] = measurement
        self._profile.add(bench.keys[index], measurement)

    def _fail(self, bench: Bench, index: int, error: SoftneuroError) -> None:
        """Leave a candidate out. The profile keeps why, unless it is a limit, which the next call may raise."""
        bench.failed[index] = str(error)
        if not isinstance(error, ResourceLimitError):
            self._profile.fail(bench.keys[index], str(error))
        _log.warning("%s is left out: %s", bench.problem.key(), error)

    # ---- what was found

    def cases(self) -> list[Case]:
        """What `select` needs, for each set of shapes. A layer of which nothing was measured keeps its default, at cost 0."""
        timed = {name: site.timed() or [(site.default(), (0.0,) * len(site.benches))] for name, site in self.layers.items()}
        return [
            Case(
                graph,
                {n: [(c, times[i]) for c, times in timed[n]] for n, site in self.layers.items() if site.benches[i]},
                partial(self._adapt_ns, i),
            )
            for i, graph in enumerate(self._graphs)
        ]

    def _adapt_ns(self, index: int, tensor: str, origin: Format, wanted: Format) -> float:
        """The time of a conversion at one set of shapes."""
        return self.adapts[tensor].fastest(Signature((origin,), (wanted,)))[1][index]

    def adapt_choices(self, choices: Mapping[str, Choice]) -> dict[str, Choice]:
        """The fastest routine for every conversion of what the layers make, with these choices, that may occur."""
        made = self._made(choices)
        return {
            adapt_name(name, signature.outputs[0]): site.fastest(signature)[0]
            for name, site in self.adapts.items() for signature in {choice.signature for choice in site.choices}
            if signature.inputs[0] == made.get(name, signature.inputs[0])
        }  # fmt: skip

    def _made(self, choices: Mapping[str, Choice]) -> dict[str, Format]:
        """The format in which each tensor is made: row-major unless the choice of its layer says another."""
        made: dict[str, Format] = {}
        for graph in self._graphs:
            made |= {name: Format.row_major(type_) for name, type_ in graph.types.items() if name not in made}
            for layer in graph.layers:
                if layer.name in choices:
                    outputs = (name for name in layer.outputs if name)
                    made |= zip(outputs, choices[layer.name].signature.outputs, strict=False)
        return made

    def failed(self, choices: Mapping[str, Choice]) -> bool:
        """Whether any of the choices could not be run or gave a wrong result."""
        sites = dict(self.layers)
        for name, site in self.adapts.items():
            sites |= {adapt_name(name, choice.signature.outputs[0]): site for choice in site.choices}
        return any(sites[name].has_failed(choice) for name, choice in choices.items() if name in sites)

    def chosen_ns(self, choices: Mapping[str, Choice]) -> dict[str, float]:
        """Nanoseconds of every chosen layer that was measured, the mean over the sets of shapes."""
        times = {n: [b.ns(choices[n]) if b else 0.0 for b in site.benches] for n, site in self.layers.items() if n in choices}
        return {name: sum(ns or 0.0 for ns in row) / len(row) for name, row in times.items() if None not in row}

    def measured(self) -> dict[str, Sequence[Measured]]:
        """All candidates of every problem by the problem's text, as a plan keeps them."""
        return {bench.problem.key(): tuple(bench.measured()) for bench in self._benches.values()}
