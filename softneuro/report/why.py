"""Questions about single layers: which ones a pattern names, why one runs with what it has, and times not known yet."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from softneuro.codegen import target as targets
from softneuro.codegen.precompile import precompile
from softneuro.codegen.target import Target
from softneuro.errors import InputError, SoftneuroError
from softneuro.plan.defaults import choice_of
from softneuro.plan.plan import Choice, Measured
from softneuro.plan.program import Placed
from softneuro.problem import Problem
from softneuro.report.explanation import Explanation, explain_problem, explanations, known_of, ways
from softneuro.report.known_times import KnownTimes, problem_text
from softneuro.report.reason import changed_adapts, reason_for
from softneuro.routines.candidates import routine_named
from softneuro.runtime.session import Session
from softneuro.runtime.specialisations import Inputs
from softneuro.runtime.team import Team
from softneuro.tuning.measure import measure, measure_host
from softneuro.tuning.profile import Measurement

__all__ = [
    "MOST_MEASURED_BYTES", "answer", "explain", "explain_each", "layer_names", "matching", "measure_missing", "measure_untimed",
    "untimed",
]  # fmt: skip

MOST_MEASURED_BYTES = 1 << 30
"""Inputs and outputs of a problem that is measured on the spot may take this many bytes."""

_SUGGESTIONS = 5


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The name that is the pattern, else those that it matches (``*``, ``?``, ``[...]``).

    Raises InputError with the nearest names when there is none.
    """
    known = list(names)
    found = [pattern] if pattern in known else [name for name in known if fnmatchcase(name, pattern)]
    if found:
        return found
    near = [name for name in known if pattern.lower() in name.lower()]
    near = near or difflib.get_close_matches(pattern, known, _SUGGESTIONS, 0.4)
    others = f", and {len(near) - _SUGGESTIONS} more" if len(near) > _SUGGESTIONS else ""
    nearest = f"one of {', '.join(map(repr, near[:_SUGGESTIONS]))}{others}" if near else f"one of {len(known)} (all: '*')"
    raise InputError(f"layer {pattern!r}: is not in the plan, needed a name or pattern of {nearest}")


def explain(session: Session, inputs: Inputs, name: str, known: KnownTimes | None = None) -> Explanation:
    """Why a layer or adapt runs with what it has, from what is known; nothing is measured.

    inputs: names to sizes or arrays, as in `Session.linked`. name: as in `matching`, of one layer. known: times, by
    default those of the plan.
    Raises InputError when the name is not there.
    """
    return explain_each(session, inputs, matching(layer_names(session, inputs), name)[:1], known)[0]


def explain_each(session: Session, inputs: Inputs, names: Sequence[str],
                 known: KnownTimes | None = None) -> list[Explanation]:
    """As `explain` of several layers, each explanation once."""
    times = known or known_of(session)
    placed = {item.name: item for item in session.linked(inputs).program.placed}
    every = explanations(session, inputs, times)
    distinct = {every[name].layers: every[name] for name in names}
    return [
        replace(found, reason=reason_for(session, inputs, placed[layers[0]], found, times))
        for layers, found in distinct.items()
    ]  # fmt: skip


def measure_missing(session: Session, inputs: Inputs, names: Sequence[str], known: KnownTimes,
                    report: Callable[[int, int, str], None]) -> KnownTimes:
    """What is known and, measured now, the times of the named layers' candidates that were not.

    report(done, total, problem) is called between measurements.
    """
    placed = {item.name: item for item in session.linked(inputs).program.placed}
    todo = {(problem_text(item.problem), str(item.choice)): item for name in names if (item := placed[name]).problem}
    weights = sum(array.nbytes for array in session.plan.graph.constants.values())
    for number, item in enumerate(todo.values()):
        assert item.problem is not None
        report(number, len(todo), problem_text(item.problem))
        known = _completed(item, session.target, known, weights)
        best = explain_problem(item.problem, session.target, known, choice=item.choice).candidates[0]
        for adapt in itertools.chain(*changed_adapts(session, inputs, item, best)):
            known = _completed(adapt, session.target, known, weights)
    report(len(todo), len(todo), "")
    return known


def _completed(item: Placed, target: Target, known: KnownTimes, weights: int) -> KnownTimes:
    """What is known and, measured now, the missing times of the candidates among which one thing was chosen."""
    assert item.problem is not None
    missing = untimed(item.problem, target, known, item.choice)
    return known.with_measured(item.problem, measure_untimed(item.problem, missing, target, weights))


def answer(problem: Problem, known: KnownTimes, measured: bool) -> Explanation:
    """The candidates of a problem here, without a plan; measured: those without a time are measured now."""
    target = targets.host()
    if measured:
        known = known.with_measured(problem, measure_untimed(problem, untimed(problem, target, known), target))
    return explain_problem(problem, target, known)


def layer_names(session: Session, inputs: Inputs) -> list[str]:
    """The names of the layers and adapts that run for the input shapes, in order."""
    return [item.name for item in session.linked(inputs).program.placed]


def untimed(problem: Problem, target: Target, known: KnownTimes, choice: Choice | None = None) -> list[Choice]:
    """The candidates of a problem (as `ways` lists them) that launch something and have no known time."""
    unknown = []
    for candidate in ways(problem, target, known, choice):
        built = candidate.routine.build(problem, candidate.signature, candidate.schedule, target)
        found = known.of(problem, choice_of(candidate), target)
        if (built.launches or built.host) and (found is None or found.ns is None):
            unknown.append(choice_of(candidate))
    return unknown


def measure_untimed(problem: Problem, choices: Sequence[Choice], target: Target, footprint: int = 0) -> list[Measured]:
    """The times of candidates of one problem, measured now, with a note for those that fail.

    footprint: bytes of weights of the whole model, so that the problem's own are as cold as in a run.
    """
    if problem.nbytes() > MOST_MEASURED_BYTES:
        note = f"not measured: takes {problem.nbytes() >> 20} MiB, at most {MOST_MEASURED_BYTES >> 20} are tried"
        return [_failed(choice, note) for choice in choices]
    found: dict[str, Measured] = {}

    def finished(choice: Choice, result: Measurement | SoftneuroError) -> None:
        found[str(choice)] = _failed(choice, str(result)) if isinstance(result, SoftneuroError) else _timed(choice, result)

    host = [choice for choice in choices if choice.routine.endswith(".reference")]
    native = [choice for choice in choices if choice not in host]
    failure = "not measured"
    try:
        for choice in host:
            finished(choice, measure_host(problem))
        if native:
            _compile(problem, native, target)
            measure(problem, native, target, Team(problem.threads, target), footprint=footprint, finished=finished)
    except SoftneuroError as error:
        failure = str(error)
    return [found.get(str(choice)) or _failed(choice, failure) for choice in choices]


def _compile(problem: Problem, choices: Sequence[Choice], target: Target) -> None:
    """Compile all kernels at once, in processes of their own."""
    kernels = []
    for choice in choices:
        routine = routine_named(choice.routine, type(problem.op))
        assert routine is not None
        kernels += [launch.kernel for launch in routine.build(problem, choice.signature, choice.schedule, target).launches]
    precompile(kernels, target, lambda done, total, kernel: None)


def _timed(choice: Choice, found: Measurement) -> Measured:
    return Measured(choice.routine, str(choice.signature), choice.schedule, found.ns, found.spread)


def _failed(choice: Choice, note: str) -> Measured:
    return Measured(choice.routine, str(choice.signature), choice.schedule, None, note=note)
