"""Plans and models as arguments: what a file is, and which model a plan was made of."""

from __future__ import annotations

import argparse
from pathlib import Path

from softneuro.cli.console import remarks
from softneuro.errors import InputError
from softneuro.plan.plan import Plan
from softneuro.tuning.tune import tune
from softneuro.tuning.workload import model_digest

__all__ = ["is_plan", "model_of", "plan_of"]

_PLAN_START = b"softneuro plan"


def is_plan(path: Path) -> bool:
    """Whether a file is meant to be a plan: by its name, else by how it begins."""
    if path.suffix in (".plan", ".onnx"):
        return path.suffix == ".plan"
    try:
        with open(path, "rb") as file:
            return file.read(len(_PLAN_START)) == _PLAN_START
    except OSError:
        return False


def plan_of(path: Path, options: argparse.Namespace) -> Plan:
    """The plan in a file, or a plan of default routines for a model (a remark says so).

    Reads ``options.shape`` and ``options.threads`` for a model. Raises PlanError or ModelError.
    """
    if is_plan(path):
        return Plan.load(path)
    remarks(options).print(f"{path}: is a model: its layers run with default routines, as nothing was measured (softneuro tune)")
    return tune(path, shapes=dict(options.shape), threads=options.threads, time_limit=0)


def model_of(path: Path, plan: Plan, given: Path | None) -> Path:
    """The ONNX model for a plan (or model) file: the one given, the file itself, or a file of the name that was tuned,
    beside the plan or in this folder, when its content is what was tuned.

    Raises InputError when there is none.
    """
    if given is not None:
        return given
    if not is_plan(path):
        return path
    name = plan.provenance.model
    for place in (path.parent / name, Path(name)):
        if name and place.is_file() and model_digest(place) == plan.provenance.model_sha256:
            return place
    searched = f"{name!r} as it was tuned is neither beside the plan nor in this folder" if name else "it does not name one"
    raise InputError(f"{path}: the model of the plan was not found ({searched}), needed --model model.onnx")
