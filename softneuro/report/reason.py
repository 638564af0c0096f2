"""Why a layer runs with a candidate that is not the fastest alone."""

from __future__ import annotations

from collections.abc import Sequence

from softneuro.codegen.target import Target
from softneuro.ops.adapt import Adapt
from softneuro.plan.lower import lower
from softneuro.plan.plan import Choice, Provenance
from softneuro.plan.program import Placed, Program
from softneuro.problem import Problem
from softneuro.report.explanation import CandidateRow, Explanation, explain_problem
from softneuro.report.known_times import KnownTimes, is_same, problem_text
from softneuro.routines.candidates import routine_named
from softneuro.routines.routine import Signature
from softneuro.runtime.session import Session
from softneuro.runtime.specialisations import Inputs

__all__ = ["changed_adapts", "reason_for"]

Adapts = Sequence[Placed]


def reason_for(session: Session, inputs: Inputs, placed: Placed, found: Explanation, known: KnownTimes) -> str:
    """Why the chosen candidate is not the fastest alone, as a sentence; empty when it is, or no times are known."""
    chosen, best = found.chosen, found.candidates[0]
    if chosen is None or chosen is best or best.ns is None or placed.problem is None:
        return ""
    if chosen.ns is None:
        return f"the chosen one has no time ({chosen.note})"
    slower_ns = chosen.ns - best.ns
    if slower_ns == 0:
        return ""
    return f"chosen {_ms(slower_ns)} slower alone: " + (
        "within the spread of the measurements, as good as the fastest" if chosen.tied
        else _not_offered(session.plan.provenance, placed.problem, best)
        or _adapts_saved(session, inputs, placed, best, slower_ns, known)
        or _other_cause(session.plan.provenance, placed.problem, chosen, best)
    )  # fmt: skip


def changed_adapts(session: Session, inputs: Inputs, placed: Placed, best: CandidateRow) -> tuple[Adapts, Adapts]:
    """The adapts that would run, and those that would no longer, if one layer alone ran with another candidate."""
    if str(placed.choice.signature) == best.formats or placed.problem is None or isinstance(placed.problem.op, Adapt):
        return (), ()
    program = session.linked(inputs).program
    swapped = Choice(best.routine, Signature.parse(best.formats), best.schedule)
    choices = {item.name: item.choice for item in program.placed} | {placed.name: swapped}
    other = lower(session.graph_for(inputs), choices, session.target, session.threads, None)
    here, there = _adapts(program), _adapts(other)
    return [there[name] for name in there if name not in here], [here[name] for name in here if name not in there]


def _adapts(program: Program) -> dict[str, Placed]:
    return {
        item.name: item for item in program.placed
        if item.problem is not None and isinstance(item.problem.op, Adapt) and len(item.steps)
    }  # fmt: skip


def _adapts_saved(session: Session, inputs: Inputs, placed: Placed, best: CandidateRow, slower_ns: float,
                  known: KnownTimes) -> str:
    """That other adapts make up for it; empty when they do not."""
    more, fewer = changed_adapts(session, inputs, placed, best)
    needed, spared = _sum_ns(more, known, session.target), _sum_ns(fewer, known, session.target)
    if not more or (needed is not None and spared is not None and needed - spared < slower_ns):
        return ""
    times = "" if needed is None or spared is None else f" ({_ms(needed - spared)})"
    number = f"{len(more)} more and {len(fewer)} fewer adapts" if fewer else f"{len(more)} more adapt{'s' * (len(more) > 1)}"
    return f"saves adapts, as {best.routine} in {best.formats} would need {number}{times}"


def _not_offered(made: Provenance, problem: Problem, best: CandidateRow) -> str:
    """That tuning did not have the fastest candidate to choose from; empty when it had, or nothing is recorded."""
    recorded = made.measured.get(problem_text(problem), ())
    choice = Choice(best.routine, Signature.parse(best.formats), best.schedule)
    if not recorded or any(is_same(measured, choice) for measured in recorded):
        return ""
    return "the fastest was not to be chosen when the plan was made: a rule (tune --routine) or an older version"


def _other_cause(made: Provenance, problem: Problem, chosen: CandidateRow, best: CandidateRow) -> str:
    if made.predicted_ns is None and made.kept != "default":
        return "it is the default routine, as nothing was measured when the plan was made"
    if _is_approximate(best, problem) and not _is_approximate(chosen, problem):
        return "the faster one rounds more, and the plan without such routines was kept for its precision or its time"
    if made.kept == "default":
        return "timed as a whole, the plan of default routines was faster than the selected one"
    return "the times were others when the plan was made, or a plan with it was faster as a whole (tuning again may gain)"


def _is_approximate(row: CandidateRow, problem: Problem) -> bool:
    routine = routine_named(row.routine, type(problem.op))
    return routine is not None and routine.approximate


def _sum_ns(adapts: Adapts, known: KnownTimes, target: Target) -> float | None:
    """The time of adapts; None where one's is not known."""
    total = 0.0
    for item in adapts:
        assert item.problem is not None
        fastest = explain_problem(item.problem, target, known, choice=item.choice).candidates[0]
        if fastest.ns is None:
            return None
        total += fastest.ns
    return total


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.4f} ms"
