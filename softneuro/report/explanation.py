"""Why a layer runs with the routine it has: every candidate with its time, and every refusal with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from softneuro.codegen.target import Target
from softneuro.ops.adapt import Adapt
from softneuro.plan.defaults import choice_of
from softneuro.plan.plan import Choice, Measured
from softneuro.plan.program import Placed
from softneuro.problem import Problem
from softneuro.report.known_times import KnownTimes, is_same, problem_text
from softneuro.routines.candidates import Candidate, candidates, narrow_dtypes_of, rejections
from softneuro.runtime.session import Session
from softneuro.runtime.specialisations import Inputs

__all__ = ["CandidateRow", "Explanation", "Refused", "explain_problem", "explanations", "known_of", "ways"]

_UNTIMED = "not measured"


@dataclass(frozen=True)
class CandidateRow:
    """One candidate: nanoseconds (None where it was not timed; note says why), relative spread of the measurement.

    chosen: it is what the layer runs with. tied: its time cannot be told from the fastest one's.
    """

    routine: str
    formats: str
    schedule: Mapping[str, int]
    ns: float | None
    spread: float = 0.0
    note: str = ""
    chosen: bool = False
    tied: bool = False


@dataclass(frozen=True)
class Refused:
    """A routine of the op that cannot compute the problem, with its reason."""

    routine: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """All that is known of one problem. layers: the names of the layers that have it; candidates: the fastest first,
    those without a time last. problem is empty where the types are not known before the run. reason: why the chosen one
    was taken though another is faster alone, as a sentence; empty where nothing is to be said."""

    problem: str
    layers: tuple[str, ...] = ()
    candidates: tuple[CandidateRow, ...] = field(default_factory=tuple)
    refused: tuple[Refused, ...] = field(default_factory=tuple)
    reason: str = ""

    @property
    def chosen(self) -> CandidateRow | None:
        """The candidate that the layers run with; None for a problem without layers."""
        return next((row for row in self.candidates if row.chosen), None)


def explain_problem(problem: Problem, target: Target, known: KnownTimes, *, choice: Choice | None = None,
                    layers: Sequence[str] = ()) -> Explanation:
    """The candidates of a problem with the times that are known, and its refusals. Nothing is measured.

    choice: what the layers run with; of an adapt, only the candidates between its two formats are listed.
    """
    rows = [_row(problem, candidate, target, known, choice) for candidate in ways(problem, target, known, choice)]
    if choice is not None and not any(row.chosen for row in rows):
        made = known.recorded_of(problem, choice)
        rows.append(_of_choice(choice, made, "runs with it, though it is no candidate here"))
    refused = tuple(Refused(r.routine.name, r.reason) for r in rejections(problem, target))
    return Explanation(problem_text(problem), tuple(layers), _ranked(rows), refused)


def explanations(session: Session, inputs: Inputs, known: KnownTimes | None = None) -> dict[str, Explanation]:
    """An explanation of every layer and adapt that runs for the inputs, by name. Nothing is measured.

    inputs: names to sizes or arrays, as in `Session.linked`. known: times, by default those that the plan recorded. Layers
    with the same problem and choice share their explanation.
    """
    times = known or known_of(session)
    groups: dict[tuple[str, str], list[Placed]] = {}
    for placed in session.linked(inputs).program.placed:
        key = problem_text(placed.problem) if placed.problem is not None else placed.name
        groups.setdefault((key, str(placed.choice)), []).append(placed)
    found: dict[str, Explanation] = {}
    for group in groups.values():
        names = tuple(placed.name for placed in group)
        found |= dict.fromkeys(names, _explained(group[0], names, session.target, times))
    return {placed.name: found[placed.name] for placed in session.linked(inputs).program.placed}


def known_of(session: Session) -> KnownTimes:
    """The times that a session's plan recorded on the machine it was tuned on; none for another instruction set."""
    made = session.plan.provenance
    return KnownTimes(made.measured if made.target in ("", session.target.name) else {})


def ways(problem: Problem, target: Target, known: KnownTimes, choice: Choice | None = None) -> list[Candidate]:
    """The candidates among which a choice was made: for an adapt, those between its two formats; of those that keep tensors as
    other data types than their own, the ones that something is known of, as tuning was allowed to use them."""
    found = [
        c for c in candidates(problem, target)
        if not narrow_dtypes_of(problem, c.routine, c.signature) or known.of(problem, choice_of(c), target) is not None
    ]  # fmt: skip
    if isinstance(problem.op, Adapt) and choice is not None:
        return [candidate for candidate in found if candidate.signature == choice.signature]
    return found


def _explained(placed: Placed, names: tuple[str, ...], target: Target, known: KnownTimes) -> Explanation:
    if placed.problem is None:
        host = _of_choice(placed.choice, None, "its types are not known before the run: the host computes it")
        return Explanation("", names, (host,))
    return explain_problem(placed.problem, target, known, choice=placed.choice, layers=names)


def _row(problem: Problem, candidate: Candidate, target: Target, known: KnownTimes, chosen: Choice | None) -> CandidateRow:
    choice, found = choice_of(candidate), known.of(problem, choice_of(candidate), target)
    if found is None and candidate.routine.build(problem, candidate.signature, candidate.schedule, target).alias is not None:
        found = Measured(choice.routine, str(choice.signature), choice.schedule, 0.0, note="only another view of its input")
    picked = chosen is not None and is_same(Measured(choice.routine, str(choice.signature), choice.schedule, None), chosen)
    return replace(_of_choice(choice, found, _UNTIMED), chosen=picked)


def _of_choice(choice: Choice, found: Measured | None, untimed: str) -> CandidateRow:
    """The row of the chosen candidate."""
    name, formats = choice.routine, str(choice.signature)
    if found is None:
        return CandidateRow(name, formats, dict(choice.schedule), None, note=untimed, chosen=True)
    return CandidateRow(name, formats, dict(choice.schedule), found.ns, found.spread, found.note, chosen=True)


def _ranked(rows: Sequence[CandidateRow]) -> tuple[CandidateRow, ...]:
    """The fastest first, those tied with it marked: whose range of times (``spread`` wide around ``ns``) meets its own."""
    timed = sorted((row for row in rows if row.ns is not None), key=lambda row: row.ns or 0.0)
    untimed = [row for row in rows if row.ns is None]
    if not timed:
        return tuple(untimed)
    best = timed[0]
    return (best, *(replace(row, tied=_meets(best, row)) for row in timed[1:]), *untimed)


def _meets(best: CandidateRow, other: CandidateRow) -> bool:
    least, ns = best.ns or 0.0, other.ns or 0.0
    return ns - least <= (least * best.spread + ns * other.spread) / 2
