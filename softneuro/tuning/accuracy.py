"""What is asked of a plan's accuracy, and the samples on which it is measured."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from softneuro.calibration.calibrate import calibrated
from softneuro.calibration.data import CalibrationData, samples_of
from softneuro.calibration.samples import DEFAULT_SAMPLES, Sample
from softneuro.calibration.table import CalibrationTable
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.tuning.budget import DEFAULT_MAX_ERROR, Budget, Metric, max_error, metric_drop, min_agreement
from softneuro.tuning.progress import Progress, Report
from softneuro.tuning.workload import Workload
from softneuro.types import Array, DType

__all__ = ["Accuracy", "measured_samples"]

_log = logging.getLogger(__name__)
_MADE_UP_SAMPLES = 8


@dataclass(frozen=True)
class Accuracy:
    """budget: how much a plan may lose. data: real inputs, see `softneuro.calibrate`, of which at most ``samples`` are read;
    preprocess, fit: what is made of pictures. method: of ranges, None for the best. table: a saved calibration table, whose
    ranges hold in place of those of the data. save: where the table of the data is written to."""

    budget: Budget
    data: CalibrationData | None = None
    samples: int = DEFAULT_SAMPLES
    preprocess: str | None = None
    fit: str = "stretch"
    method: str | None = None
    table: Path | None = None
    save: Path | None = None

    @classmethod
    def of(cls, *, calibration: CalibrationData | None = None, samples: int = DEFAULT_SAMPLES, preprocess: str | None = None,
           fit: str = "stretch", method: str | None = None, table: str | Path | None = None,
           save: str | Path | None = None, error: float | None = None,
           agreement: float | None = None, metric: Metric | None = None, drop: float | None = None) -> Accuracy:
        """Check the arguments. Raises InputError for a budget that is none, and for more than one."""
        given = [name for name, value in (("max_error", error), ("min_agreement", agreement), ("metric", metric))
                 if value is not None]  # fmt: skip
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)}: found {len(given)} budgets, needed one")
        if (metric is None) != (drop is None):
            raise InputError("metric and max_drop: found one of them, needed both or none")
        if metric is not None and drop is not None:
            budget = metric_drop(metric, drop)
        elif agreement is not None:
            budget = min_agreement(agreement)
        else:
            budget = max_error(DEFAULT_MAX_ERROR if error is None else error)
        return cls(budget, calibration, samples, preprocess, fit, method, Path(table) if table is not None else None,
                   Path(save) if save is not None else None)


def measured_samples(work: Workload, accuracy: Accuracy, dtypes: Sequence[DType], target: Target, threads: int,
                     report: Report) -> tuple[Workload, list[Mapping[str, Array]]]:
    """The workload with the quantisations of its tensors, where 8 bits are allowed, and samples to measure losses on.

    Raises InputError when 8 bits are asked for and nothing says which numbers the tensors hold.
    """
    shapes = work.provenance.shapes
    samples: list[Sample] = []
    if accuracy.data is not None:
        samples = list(samples_of(work.graph, accuracy.data, most=accuracy.samples, shapes=shapes,
                                  preprocess=accuracy.preprocess, fit=accuracy.fit))  # fmt: skip
    if DType.QINT8 in dtypes:
        table = _table(work, accuracy, samples, target, threads, report)
        work = _quantised(work, table)
    if samples:
        return work, [sample.feeds for sample in samples]
    _log.warning("losses are measured on made-up inputs, as there is no calibration data: real ones tell more")
    return work, [feeds for seed in range(_MADE_UP_SAMPLES) for feeds in work.feeds(seed)[:1]]


def _table(work: Workload, accuracy: Accuracy, samples: Sequence[Sample], target: Target, threads: int,
           report: Report) -> CalibrationTable:
    if accuracy.table is not None:
        table = CalibrationTable.load(accuracy.table)
        unknown = table.unknown(work.graph)
        if unknown:
            _log.warning("calibration table %s: knows %d tensors that the model does not have, such as %r",
                         accuracy.table, len(unknown), unknown[0])
        return table
    if not samples:
        raise InputError("dtypes: found qint8 without calibration data, needed inputs that show which numbers the tensors hold "
                         "(--calibration FOLDER)")
    table = calibrated(work.graph, samples, method=accuracy.method, threads=threads, target=target,
                       progress=lambda done, most, what: report(Progress("calibrate", done, most, what)))  # fmt: skip
    if accuracy.save is not None:
        replace(table, model=work.provenance.model, model_sha256=work.provenance.model_sha256).save(accuracy.save)
    return table


def _quantised(work: Workload, table: CalibrationTable) -> Workload:
    graph = table.applied(work.graph)
    concretes = tuple(replace(concrete, quantisations=graph.quantisations) for concrete in work.concretes)
    return replace(work, graph=graph, concretes=concretes)
