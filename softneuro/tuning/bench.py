"""A distinct problem on the bench: its candidates, and what is known of their times."""

from __future__ import annotations

from collections.abc import Sequence

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.plan.plan import Choice, Measured
from softneuro.problem import Problem
from softneuro.routines.candidates import reference_routine, routine_named
from softneuro.tuning.profile import Measurement, Profile, routine_digest

__all__ = ["Bench"]

_FREE = Measurement(0.0)


class Bench:
    """Candidates are numbered in the order in which they were added.

    times, failed: what was measured, and why the others could not be; keys: what the profile knows them by; kernels: what
    each launches; free: how many take no time and are never measured; host: the reference, which runs on the host, is the
    only candidate.
    """

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem = problem
        self.choices: list[Choice] = []
        self.times: dict[int, Measurement] = {}
        self.failed: dict[int, str] = {}
        self.keys: list[str] = []
        self.kernels: list[tuple[KernelSpec, ...]] = []
        self.host = False
        self.free = 0
        self._target = target
        self._known: dict[str, int] = {}

    def add(self, choice: Choice, profile: Profile) -> None:
        """Put a choice on the bench unless it is there, with the time or the failure that the profile knows."""
        if str(choice) in self._known:
            return
        index = self._known[str(choice)] = len(self.choices)
        routine = routine_named(choice.routine, type(self.problem.op))
        assert routine is not None
        built = routine.build(self.problem, choice.signature, choice.schedule, self._target)
        self.choices.append(choice)
        self.host |= built.host
        self.kernels.append(tuple(launch.kernel for launch in built.launches))
        self.keys.append(Profile.key(self.problem, choice, routine_digest(routine, built)))
        known = profile.get(self.keys[index])
        if built.alias is not None:  # the output is an input's memory
            known, self.free = _FREE, self.free + 1
        failure = profile.failure(self.keys[index])
        if known is not None:
            self.times[index] = known
        elif failure is not None:
            self.failed[index] = failure

    def ns(self, choice: Choice) -> float | None:
        """The time of a choice, None while there is none."""
        index = self._known.get(str(choice))
        return self.times[index].ns if index in self.times else None

    def has_failed(self, choice: Choice) -> bool:
        """Whether a choice could not be run or gave a wrong result."""
        return self._known.get(str(choice)) in self.failed

    def missing(self) -> list[int]:
        """Candidates that are still to be measured."""
        return [index for index in range(len(self.choices)) if index not in self.times and index not in self.failed]

    def spare(self) -> Choice:
        """The reference, which is left when every candidate failed."""
        reference = reference_routine(type(self.problem.op))
        return Choice(reference.name, reference.signatures(self.problem)[0], {})

    def measured(self) -> Sequence[Measured]:
        """All candidates, as a plan keeps them."""
        return [self._measured(index, choice) for index, choice in enumerate(self.choices)]

    def _measured(self, index: int, choice: Choice) -> Measured:
        known = self.times.get(index)
        if known is None:
            note = self.failed.get(index, "not measured: the time was over")
            return Measured(choice.routine, str(choice.signature), choice.schedule, None, 0.0, note)
        return Measured(choice.routine, str(choice.signature), choice.schedule, round(known.ns, 1), round(known.spread, 4))

