"""One tuning run: measure, select, check the whole plan."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from softneuro.codegen.jit import cache_folder, object_code
from softneuro.codegen.precompile import precompile
from softneuro.errors import SoftneuroError
from softneuro.graph import GraphInput
from softneuro.limits import in_force
from softneuro.plan.lower import lower
from softneuro.plan.outline import choices_of, kernels_of
from softneuro.plan.plan import Choice, Plan
from softneuro.plan.program import Program
from softneuro.runtime import Session
from softneuro.tuning.accuracy import Accuracy, measured_samples
from softneuro.tuning.bodies import has_bodies, has_unknown_types, specialised_bodies
from softneuro.tuning.costs import Costs
from softneuro.tuning.measure import EFFORTS
from softneuro.tuning.mixed import mixed_selection
from softneuro.tuning.object_cache import bound_cache, most_cached_bytes
from softneuro.tuning.offers import Offers
from softneuro.tuning.profile import Profile
from softneuro.tuning.progress import Progress, Report
from softneuro.tuning.request import Request
from softneuro.tuning.rounding import without_rounded_approximations
from softneuro.tuning.select import Case, Selection, select
from softneuro.tuning.sensitivity import own_dtypes_only
from softneuro.tuning.whole_plan import fastest_plan, precise_times
from softneuro.tuning.workload import Workload, prepare
from softneuro.types import Array, DType

__all__ = ["tuned"]

_log = logging.getLogger(__name__)
_RUNNERS_UP = 2
_MORE_SEEDS = (1, 2, 3, 4)
_MOST_ITERATIONS = 10_000


def tuned(request: Request, report: Report = lambda standing: None) -> Plan:
    """The plan that is asked for. Raises what `softneuro.tune` does."""
    return _Tuner(request, report).run()


class _Tuner:
    """A request on its way to a plan."""

    def __init__(self, request: Request, report: Report) -> None:
        self._request, self._report = request, report
        self._target, self._threads = request.target, request.threads
        self._has_compiled = False

    def run(self) -> Plan:
        """Make the plan; compiles what it needs at other sizes when the model has free dimensions."""
        from softneuro.passes.rewrite import is_static

        self._report(Progress("import", 0, 1))
        work = prepare(self._request)
        samples: list[Mapping[str, Array]] = []
        if self._request.mixes and self._request.measures:
            accuracy = self._request.accuracy or Accuracy.of()
            work, samples = measured_samples(work, accuracy, self._request.dtypes, self._target, self._threads, self._report)
        plan = self._measured_plan(work, samples) if self._request.measures else self._default(work)
        if not is_static(work.graph) or has_bodies(work.graph) or any(map(has_unknown_types, work.concretes)):
            self._compile(work, plan)
        if self._has_compiled:
            bound_cache(cache_folder(), most_cached_bytes())
        return plan

    def _stage(self, stage: str) -> Callable[[int, int, str], None]:
        def report(done: int, total: int, what: str) -> None:
            self._has_compiled |= stage == "compile"
            self._report(Progress(stage, done, total, what))

        return report

    def _outline(self, work: Workload, index: int, choices: dict[str, Choice]) -> Program:
        """What would run at a set of shapes."""
        return lower(work.concretes[index], choices, self._target, self._threads, None)

    def _compile(self, work: Workload, plan: Plan) -> None:
        """Compile every kernel that the plan may launch at any shape, and those of the graphs inside of layers."""
        outlines = [self._outline(work, index, dict(plan.choices)) for index in range(len(work.concretes))]
        bodies = (body for concrete in work.undecided() for body in specialised_bodies(concrete))
        outlines += [lower(body, {}, self._target, self._threads, None) for body in bodies]
        kernels = list(dict.fromkeys(kernel for outline in outlines for kernel in kernels_of(outline, self._target)))
        precompile(kernels, self._target, self._stage("compile"))
        for kernel in kernels:
            object_code(kernel, self._target)  # the few that no process was started for
        for concrete, feeds in zip(work.concretes, work.feeds(), strict=True):
            if has_unknown_types(concrete) and all(_is_number(declared) for declared in concrete.inputs.values()):
                self._try(plan, feeds)

    def _try(self, plan: Plan, feeds: Mapping[str, Any]) -> None:
        """Run the plan on made-up inputs: only that tells the kernels of layers whose sizes depend on the data.

        They may make a loop endless, which is left early.
        """
        limits = replace(in_force(), iterations=min(in_force().iterations, _MOST_ITERATIONS))
        try:
            Session(plan, self._threads, target=self._target, limits=limits).run(feeds)
        except SoftneuroError as error:
            _log.info("kernels for sizes that depend on the data are compiled when they are met: %s", error)

    def _default(self, work: Workload, offers: Offers | None = None) -> Plan:
        """The default choice for every layer, written down: other shapes might have other defaults. Where a rule forbids
        it, the first choice that is allowed."""
        allowed = {}
        if self._request.rules:
            allowed = {name: offer.choices for name, offer in (offers or work.offers(self._request)).items()}
        choices: dict[str, Choice] = {}
        for index in range(len(work.concretes)):
            while True:  # choices change in which formats tensors are there, and so the defaults of layers behind
                outline = self._outline(work, index, choices)
                wrong = [p.name for p in outline.placed if p.name in allowed and p.choice not in allowed[p.name]]
                if not set(wrong) - set(choices):
                    break
                choices |= {name: allowed[name][0] for name in wrong}
            choices = choices_of(outline) | choices
        return Plan(work.graph, choices, work.provenance)

    def _measured_plan(self, work: Workload, samples: Sequence[Mapping[str, Array]]) -> Plan:
        request = self._request
        deadline = None if request.time_limit is None else time.monotonic() + request.time_limit
        offers = work.offers(request)
        profile = Profile(self._target, request.profile)
        costs = Costs(work.concretes, offers, self._target, self._threads, profile)
        if request.error_on_miss:
            costs.require_known()
        try:
            _log.info("compiling up to %d kernels", len(set(costs.missing_kernels())))
            costs.compile_all(self._stage("compile"))
            _log.info("measuring %d candidates of %d problems", costs.missing_count(), len(costs.benches))
            costs.measure_all(deadline, EFFORTS[request.effort], self._stage("measure"))
        finally:
            profile.close()
        self._report(Progress("select", 0, 1))
        plans = self._plans(work, costs, samples)
        default = self._default(work, offers)
        if not costs.failed(default.choices):
            made = replace(plans[0].provenance, kept="default", predicted_ns=None, layer_ns=costs.chosen_ns(default.choices))
            plans.append(replace(default, provenance=made))
        _log.info("comparing %d plans on made-up inputs", len(plans))
        more_feeds = [feeds for seed in _MORE_SEEDS for feeds in work.feeds(seed)]
        plan = fastest_plan(plans, work.feeds(), self._threads, self._target, self._report, more_feeds)
        found = plans[0].provenance  # of the plan of mixed data types, where there is one
        return replace(plan, provenance=replace(plan.provenance, measured=costs.measured(), frontier=found.frontier,
                                                budget=found.budget))

    def _plans(self, work: Workload, costs: Costs, samples: Sequence[Mapping[str, Array]]) -> list[Plan]:
        """The plans to compare: those of float32, before them that of mixed data types where they are allowed."""
        measured = costs.cases()
        if not self._request.mixes:
            return self._own_plans(work, costs, measured)
        accuracy = self._request.accuracy or Accuracy.of()
        mixed = mixed_selection(work.graph, costs, samples, accuracy.budget, self._target, self._threads, self._report)
        plan = self._finished(work, mixed.chosen.selection, costs)
        made = replace(plan.provenance, kept="mixed", predicted_ns=mixed.chosen.ns, optimal=False, lower_bound_ns=None,
                       loss=mixed.chosen.loss, budget=accuracy.budget.text, frontier=mixed.tradeoffs)  # fmt: skip
        own = [own_dtypes_only(case, self._threads) for case in measured]
        return [replace(plan, provenance=made), *self._own_plans(work, costs, own)]

    def _own_plans(self, work: Workload, costs: Costs, measured: Sequence[Case]) -> list[Plan]:
        """The selection, its runners-up, and the selection without approximate routines where that is another one."""
        cases = [replace(case, times=without_rounded_approximations(case.times, case.graph)) for case in measured]
        selections = select(cases, 1 + _RUNNERS_UP)
        precise = [replace(case, times=precise_times(case.times, case.graph)) for case in cases]
        if precise != cases:
            selections += select(precise)
        best = selections[0]
        _log.info("selected: %.4g ms%s", best.predicted_ns / 1e6, ", proved the least" if best.optimal else "")
        return [self._finished(work, selection, costs) for selection in selections]

    def _finished(self, work: Workload, selection: Selection, costs: Costs) -> Plan:
        choices = dict(selection.choices) | costs.adapt_choices(selection.choices)
        provenance = replace(work.provenance, kept="selected", layer_ns=costs.chosen_ns(choices))
        if not costs.missing_count():  # else layers that were not measured count as nothing
            provenance = replace(provenance, predicted_ns=selection.predicted_ns, optimal=selection.optimal,
                                 lower_bound_ns=selection.lower_bound_ns)  # fmt: skip
        return Plan(work.graph, choices, provenance)


def _is_number(declared: GraphInput) -> bool:
    """Whether an input is a tensor of numbers, which can be made up."""
    return declared.shape is not None and declared.dtype not in (DType.STR, DType.OTHER)
