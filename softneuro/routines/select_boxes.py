"""Non-maximum suppression by heaps of candidates, float32."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.suppression import SelectBoxes
from softneuro.problem import Problem
from softneuro.routines.formats import reject_unless_f32, row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, Word, scratch, source, target_of
from softneuro.routines.sizes import odd_lines

__all__ = ["SELECT_BOXES_HEAP_F32"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, (batches, classes, n) = cast(SelectBoxes, problem.op), problem.input(1).shape
    places, units = op.most_boxes(problem.inputs), batches * classes
    sharers = max(1, min(problem.threads, units))
    chosen, share = 8 * units * places, odd_lines(16 * n + 20 * places)
    counts, own = share * sharers + chosen, share * sharers
    parameters: list[Word] = [source(i) if i < len(problem.inputs) and problem.inputs[i] else 0 for i in (2, 3, 4)]
    select = (source(0), source(1), *parameters, batches, classes, n, places, int(op.centered), scratch(own), scratch(counts),
              scratch(0), share, sharers)
    rows = (scratch(own), scratch(counts), batches, classes, places, target_of(0), target_of(1))
    return Built(launches=(Launch(KernelSpec.of("select_boxes"), select), Launch(KernelSpec.of("list_boxes"), rows)),
                 scratch=counts + 8 * max(1, units))


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_unless_f32(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


SELECT_BOXES_HEAP_F32 = Routine(name="select_boxes.heap.f32.chf", op=SelectBoxes, reject=_reject, signatures=_signatures,
                                build=_build)
