"""The last word: whole plans compared on one input of each set of shapes, for the error of their outputs and for their time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.feeds import random_array, random_of_kind
from softneuro.graph import Graph, GraphInput
from softneuro.plan.plan import Choice, Plan
from softneuro.routines.candidates import routine_named
from softneuro.runtime.session import Session
from softneuro.tuning.progress import Progress, Report
from softneuro.types import Array

__all__ = ["MOST_OUTPUT_ERROR", "Times", "fastest_plan", "output_error", "precise_times", "random_feeds"]

_log = logging.getLogger(__name__)
_LEAST_ROUNDS, _MOST_ROUNDS = 7, 200
_CHECK_SECONDS = 0.7
_STEP = 0.1

MOST_OUTPUT_ERROR = 6e-5
"""Largest difference of a plan's outputs from those of the plan without approximate routines, in units of the
output's largest value: what is left of 1e-4 when another engine's own rounding is subtracted."""

Times = Mapping[str, Sequence[tuple[Choice, float]]]


def precise_times(times: Times, graph: Graph) -> dict[str, Sequence[tuple[Choice, float]]]:
    """The measured choices without those of approximate routines, except where nothing else is left."""
    ops = {layer.name: type(layer.op) for layer in graph.layers}
    result = {}
    for name, measured in times.items():
        routines = [routine_named(choice.routine, ops[name]) for choice, _ in measured]
        kept = [pair for pair, routine in zip(measured, routines, strict=True) if routine is None or not routine.approximate]
        result[name] = kept or measured
    return result


def random_feeds(concrete: Graph, seed: int = 0, known: Mapping[str, Array] | None = None) -> dict[str, Any]:
    """Inputs to run a plan with: normal floats, ones of other types (valid as indices and lengths), what is known as it is."""
    rng = np.random.default_rng(seed)
    return {name: _random_feed(declared, rng) for name, declared in concrete.inputs.items()} | dict(known or {})


def _random_feed(declared: GraphInput, rng: np.random.Generator) -> Any:
    shape = [size for size in declared.shape or () if isinstance(size, int)]
    if declared.kind:
        return random_of_kind(declared.kind, shape, rng, least=1)
    return random_array(declared.dtype, shape, rng, least=1)


def output_error(found: Mapping[str, Array], precise: Mapping[str, Array]) -> float:
    """The largest difference of any float output, in units of that output's largest finite value."""
    worst = 0.0
    for name, want in precise.items():
        if isinstance(want, np.ndarray) and want.dtype.kind == "f" and want.size:
            finite = np.isfinite(want)
            scale = float(np.max(np.abs(want), initial=0.0, where=finite)) or 1.0
            with np.errstate(invalid="ignore"):
                gaps = np.abs(found[name] - want)
            worst = max(worst, float(np.max(gaps, initial=0.0, where=finite)) / scale)
    return worst


def _is_precise(plan: Plan) -> bool:
    ops = {layer.name: type(layer.op) for layer in plan.graph.layers}
    routines = (routine_named(choice.routine, ops[name]) for name, choice in plan.choices.items() if name in ops)
    return not any(routine is not None and routine.approximate for routine in routines)


def fastest_plan(plans: Sequence[Plan], feeds: Sequence[Mapping[str, Array]], threads: int, target: Target,
                 report: Report = lambda standing: None, more_feeds: Sequence[Mapping[str, Array]] = ()) -> Plan:
    """The fastest of the plans (the default last, if it is among them) with its measured times noted.

    feeds: inputs for each set of shapes; a plan's time is the mean over them. more_feeds: others, on which only outputs are
    compared, since one input may hide an error that another shows. A plan with approximate routines is let go
    when its outputs are further than `MOST_OUTPUT_ERROR` from those of the first plan without any. When the model cannot
    run on the feeds (made-up whole numbers may be invalid), the first plan without approximate routines is kept unseen.
    Plans with a `Provenance.loss` were held to a budget before: only their time counts.
    report is told between rounds how much of the time is over.
    """
    budgeted = {index for index, plan in enumerate(plans) if plan.provenance.loss is not None}
    precise = [index for index, plan in enumerate(plans) if index not in budgeted and _is_precise(plan)]
    sessions = [Session(plan, threads, target=target) for plan in plans]
    try:
        bindings = [[session.bind(given) for given in feeds] for session in sessions]
        outputs = [[binding.run() for binding in of_plan] for of_plan in bindings]
        if len(precise) + len(budgeted) < len(plans):
            for found, session in zip(outputs, sessions, strict=True):
                found.extend(session.run(given) for given in more_feeds)
    except InputError as error:
        _log.info("whole plans are not compared: the model does not run on random inputs: %s", error)
        return plans[precise[0] if precise else 0]
    errors = [max(map(output_error, found, outputs[precise[0]])) if precise else 0.0 for found in outputs]
    medians = _medians([[binding.run for binding in of_plan] for of_plan in bindings], report)
    trusted = budgeted.union(precise)
    allowed = [i for i in range(len(plans)) if i in trusted or errors[i] <= MOST_OUTPUT_ERROR] or [len(plans) - 1]
    for index in sorted(set(range(len(plans))) - set(allowed)):
        _log.info("plan %d is let go: its outputs are off by %.1e, allowed %.1e", index, errors[index], MOST_OUTPUT_ERROR)
    best = min(allowed, key=medians.__getitem__)
    default_ns = medians[-1] if plans[-1].provenance.kept == "default" else None
    float_ns = min(ns for index, ns in enumerate(medians) if index not in budgeted) if budgeted else None
    made = replace(plans[best].provenance, measured_ns=medians[best], default_ns=default_ns, float_ns=float_ns)
    return replace(plans[best], provenance=made)


def _medians(plans: Sequence[Sequence[Callable[[], object]]], report: Report) -> list[float]:
    """For each plan the mean of the median nanoseconds of its functions, all called in turns."""
    times: list[list[list[int]]] = [[[] for _ in functions] for functions in plans]
    began, rounds, told = time.monotonic(), 0, 0.0
    while True:
        share = _share(rounds, time.monotonic() - began)
        if share >= 1:
            break
        if share >= told:  # seldom: what it draws is in the caches that the next plan would have
            report(Progress("check", int(100 * share), 100))
            told = share + _STEP
        for functions, of_plan in zip(plans, times, strict=True):
            for function, samples in zip(functions, of_plan, strict=True):
                start = time.perf_counter_ns()
                function()
                samples.append(time.perf_counter_ns() - start)
        rounds += 1
    report(Progress("check", 100, 100))
    return [float(np.mean([np.median(samples) for samples in of_plan])) for of_plan in times]


def _share(rounds: int, seconds: float) -> float:
    """The part of a comparison that is over: it takes a least number of rounds, and time or a largest number."""
    return min(rounds / _LEAST_ROUNDS, max(seconds / _CHECK_SECONDS, rounds / _MOST_ROUNDS))
