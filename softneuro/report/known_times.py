"""What is known of candidates' times without measuring: from a plan's record, and from a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.plan.plan import Choice, Measured
from softneuro.problem import Problem
from softneuro.routines.candidates import routine_named
from softneuro.tuning.profile import Profile, routine_digest

__all__ = ["KnownTimes", "is_same", "problem_text", "read_measurements"]


@dataclass(frozen=True)
class KnownTimes:
    """recorded: candidates by their problem's text, as in `Provenance.measured`. profile: measurements of this machine,
    which win over the record, as they may be newer."""

    recorded: Mapping[str, Sequence[Measured]] = field(default_factory=dict)
    profile: Profile | None = None

    def of(self, problem: Problem, choice: Choice, target: Target) -> Measured | None:
        """The time of a choice, or the note why it has none; None when nothing is known."""
        recorded = self.recorded_of(problem, choice)
        routine = routine_named(choice.routine, type(problem.op)) if self.profile is not None else None
        if self.profile is None or routine is None:
            return recorded
        built = routine.build(problem, choice.signature, choice.schedule, target)
        key = Profile.key(problem, choice, routine_digest(routine, built))
        found, failure = self.profile.get(key), self.profile.failure(key)
        if found is not None:
            return Measured(choice.routine, str(choice.signature), choice.schedule, found.ns, found.spread)
        if failure is not None and (recorded is None or recorded.ns is None):
            return Measured(choice.routine, str(choice.signature), choice.schedule, None, note=failure)
        return recorded

    def recorded_of(self, problem: Problem, choice: Choice) -> Measured | None:
        """What the record alone says of a choice."""
        return next((m for m in self.recorded.get(problem_text(problem), ()) if is_same(m, choice)), None)

    def with_measured(self, problem: Problem, measured: Sequence[Measured]) -> KnownTimes:
        """This, and what was measured of one problem just now, which wins over the record."""
        text = problem_text(problem)
        return KnownTimes({**self.recorded, text: (*measured, *self.recorded.get(text, ()))}, self.profile)


def is_same(measured: Measured, choice: Choice) -> bool:
    """Whether a record is of a choice. An op has one reference, whatever is written of the formats of its constants."""
    if measured.routine != choice.routine or measured.routine.endswith(".reference"):
        return measured.routine == choice.routine
    return measured.formats == str(choice.signature) and dict(measured.schedule) == dict(choice.schedule)


def problem_text(problem: Problem) -> str:
    """The problem's text form; the op's name alone for ops that hold graphs, which have none."""
    try:
        return problem.key()
    except TypeError:
        return problem.op.name


def read_measurements(path: Path) -> Profile:
    """The measurements in a file of `tune --profile`, of this machine. Raises InputError when it is not there, ProfileError
    when it is something else."""
    if not path.is_file():
        raise InputError(f"{path}: does not exist, needed a file of measurements (softneuro tune --profile)")
    return Profile(targets.host(), path)
