"""`softneuro.tune`: from a model to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from softneuro.calibration.data import CalibrationData
from softneuro.calibration.samples import DEFAULT_SAMPLES
from softneuro.codegen.target import Target
from softneuro.limits import ResourceLimits, enforced
from softneuro.plan.plan import Plan
from softneuro.tuning.accuracy import Accuracy
from softneuro.tuning.budget import Metric
from softneuro.tuning.progress import Progress, Report
from softneuro.tuning.ranges import RangedShapes
from softneuro.tuning.request import DEFAULT_EFFORT, Model, Numbers, Request
from softneuro.tuning.tuner import tuned

__all__ = ["Progress", "tune"]


def tune(model: Model, *, shapes: RangedShapes | Sequence[RangedShapes] | None = None,
         values: Numbers | Sequence[Numbers] | None = None, threads: int | None = None,
         dtypes: Sequence[str] = ("f32",), routines: Iterable[str] = (), effort: int = DEFAULT_EFFORT,
         time_limit: float | None = None, profile: str | Path | None = None, error_on_miss: bool = False,
         calibration: CalibrationData | None = None, calibration_samples: int = DEFAULT_SAMPLES,
         calibration_table: str | Path | None = None, calibration_method: str | None = None, preprocess: str | None = None,
         fit: str = "stretch", max_error: float | None = None, min_agreement: float | None = None,
         metric: Metric | None = None, max_drop: float | None = None, progress: Report | None = None,
         target: Target | None = None, limits: ResourceLimits | None = None) -> Plan:
    """Make a plan of a model for this machine.

    model: path, bytes or ModelProto.
    shapes: input name → sizes, for models with free dimensions or to override declared ones (free dimensions are 1 where
        nothing is said). A sequence of such mappings tunes for all of them at once: the plan has one choice for each layer,
        and the mean of the times at these shapes is least. A size may be a range, ``(1, 3, (224, 640), (224, 640))``: the
        least sizes, the middle ones and the largest stand for it. Sizes outside of it run as well.
    values: input name → number, for inputs that decide which branch of the model runs (``{"sr": 16000}``): the layers of that
        branch are tuned, those of others run with default routines. A sequence goes with that of ``shapes``. Without it,
        numbers that the input is compared with, 1 and 0 are tried. Other values than the tuned ones run as well.
    threads: how many share one inference; by default all CPUs this process may use.
    dtypes: data types that float32 layers may compute in and tensors be kept as: f32, which must be among them, bf16, f16 and
        qint8 (8 bits, which needs calibration). With more than f32, the fastest plan is searched for whose loss on the
        calibration data, as a whole, stays within the budget; it is kept where it is faster than the float32 plan.
    calibration: inputs that show which numbers the tensors hold, see the data of `softneuro.calibrate`.
    calibration_samples: at most so many are read.
    calibration_table: a file of ranges (`CalibrationTable.save`) in place of those of the data.
    calibration_method: how ranges are found, the best for each tensor by default.
    preprocess: what pictures become, as on the command line.
    fit: how pictures get the input's sizes, likewise.
    max_error: the budget: largest relative L2 error of the outputs beside those of float32 (0.01 when nothing is said).
    min_agreement: in its place, the least part of the samples that keep their first class.
    metric: in its place, a function of the outputs of all samples (a sequence of mappings) that is more for better ones.
    max_drop: how much less the metric may be than with float32.
    routines: rules for what layers may run with, such as ``"f32:chl/winograd@conv1"`` (only that) or ``"!igemm"`` (never
        that); see `softneuro.tuning.restrict`.
    effort: how carefully to measure: 0 measures nothing and takes each layer's default routine, 1 is quick, 2 the usual, 3
        thorough. What a profile knows counts whatever effort it was measured with.
    time_limit: seconds for measuring; 0 is effort 0; None means no limit.
    profile: a file of measurements to reuse and extend, made when it is absent.
    error_on_miss: use only what the profile has; nothing but whole plans is measured.
    progress: called with a `Progress` between measurements.
    target: the instruction set to tune for, by default the best of this machine.
    limits: what the model and the profile may ask for, see `ResourceLimits`.

    The plan's provenance holds the times of all candidates. When the model has free dimensions, every kernel that the plan
    needs at other sizes is compiled before this returns, into the object cache.

    Raises ModelError (the model cannot be read), UnsupportedOp, InputError (shapes, rules or other arguments do not fit),
    ProfileError (the profile is damaged, cannot be written, or lacks something with error_on_miss), ResourceLimitError.
    """
    request = Request.of(
        model, shapes=shapes, values=values, threads=threads, dtypes=dtypes, routines=routines, effort=effort,
        time_limit=time_limit, profile=profile, error_on_miss=error_on_miss, target=target, accuracy=Accuracy.of(
            calibration=calibration, samples=calibration_samples, preprocess=preprocess, fit=fit, method=calibration_method,
            table=calibration_table, error=max_error, agreement=min_agreement, metric=metric, drop=max_drop),
    )  # fmt: skip
    with enforced(limits):
        return tuned(request, progress or (lambda standing: None))
