"""`softneuro.calibrate`: which numbers a model's tensors hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from softneuro.calibration.calibrate import calibrated
from softneuro.calibration.data import CalibrationData, samples_of
from softneuro.calibration.samples import DEFAULT_SAMPLES
from softneuro.calibration.table import CalibrationTable
from softneuro.codegen.target import Target
from softneuro.limits import ResourceLimits, enforced
from softneuro.tuning.progress import Progress, Report
from softneuro.tuning.request import Model, Request
from softneuro.tuning.workload import prepare

__all__ = ["calibrate"]


def calibrate(model: Model, data: CalibrationData, *, shapes: Mapping[str, Sequence[int]] | None = None,
              samples: int = DEFAULT_SAMPLES, method: str | None = None, preprocess: str | None = None, fit: str = "stretch",
              threads: int | None = None, progress: Report = lambda standing: None, target: Target | None = None,
              limits: ResourceLimits | None = None) -> CalibrationTable:
    """Run a model on samples and find how its float tensors may be kept in 8 bits.

    model: path, bytes or ModelProto.
    data: a folder of pictures, a .npz file whose arrays count samples along their first axis (or a folder of them),
        ``module:function``, or any iterable of samples: mappings of input names to arrays, or arrays for a model with one
        input. Samples are inputs for one run each.
    shapes: input name → sizes, as for `softneuro.tune`, where the model is rewritten at these sizes; by default those of the
        first sample where some are free. Samples may have other sizes.
    samples: at most so many are read.
    method: ``min-max``, ``percentile`` (99.99), ``mse`` or ``entropy``; None takes the one that leaves the least squared error
        for each tensor.
    preprocess: what pictures become, as on the command line.
    fit: how pictures get the input's sizes, likewise.
    threads: how many share one run; the result does not depend on it.
    progress: called with a `Progress` of the stage ``calibrate`` before each sample and after the last.
    limits: what the model may ask for.

    NaN in an input is an error. Infinite numbers are not (masks have them): tensors that become infinite or NaN are left out of
    the table, and stay floats. Equal samples give equal tables, in any order.

    Raises ModelError, UnsupportedOp, InputError (data, shapes or arguments do not fit, or there is no sample), NotInstalled
    (pictures need the extra ``images``), ResourceLimitError.
    """
    with enforced(limits):
        progress(Progress("import", 0, 1))
        if shapes is None:
            data = list(islice(data, max(samples, 0))) if isinstance(data, Iterator) else data  # it is read twice
            shapes = _shapes_of_first(model, data)
        request = Request.of(model, shapes=shapes, threads=threads, target=target)
        work = prepare(request)
        found = samples_of(work.graph, data, most=samples, shapes=request.shapes[0], preprocess=preprocess, fit=fit)
        table = calibrated(work.graph, found, method=method, threads=request.threads, target=request.target,
                           progress=lambda done, most, what: progress(Progress("calibrate", done, most, what)))
    return replace(table, model=work.provenance.model, model_sha256=work.provenance.model_sha256)


def _shapes_of_first(model: Model, data: CalibrationData) -> Mapping[str, Sequence[int]]:
    """The sizes of the first sample, nothing where the model fixes them all."""
    from softneuro.importer.model import import_model
    from softneuro.passes.rewrite import is_static

    imported = import_model(model)
    if is_static(imported):
        return {}
    first = next(iter(samples_of(imported, data, most=1)))
    return {name: np.shape(array) for name, array in first.feeds.items()}
