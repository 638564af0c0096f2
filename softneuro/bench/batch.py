"""Input sizes for another number of samples."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.errors import InputError
from softneuro.plan.plan import Plan
from softneuro.types import Shape

__all__ = ["batch_of", "check_runs", "with_batch"]


def with_batch(shapes: Mapping[str, Shape], batch: int) -> dict[str, Shape]:
    """The shapes with ``batch`` as the first dimension of each; scalars stay. Raises InputError when all are scalars."""
    if not any(shapes.values()):
        raise InputError("batch: no input of the model has a dimension")
    return {name: (batch, *shape[1:]) if shape else () for name, shape in shapes.items()}


def batch_of(shapes: Mapping[str, Shape]) -> int:
    """How many samples the shapes hold: the first dimension that all inputs of two dimensions or more share, else 1."""
    firsts = {shape[0] for shape in shapes.values() if len(shape) > 1}
    return firsts.pop() if len(firsts) == 1 else 1


def check_runs(plan: Plan, batch: int, name: str) -> None:
    """Raise InputError when a plan, called so, cannot run that many samples: its kernels were made for another number."""
    for key, declared in plan.graph.inputs.items():
        first = declared.shape[0] if declared.shape else None
        if isinstance(first, int) and first != batch:
            sizes = "x".join(map(str, (batch, *plan.provenance.shapes.get(key, ())[1:])))
            raise InputError(f"{name}: found batch {batch}, but the first dimension of input {key!r} is fixed at {first}, needed "
                             f"the model.onnx in place of the plan, or a plan of softneuro tune --shape {key}={sizes}")
