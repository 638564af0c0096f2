"""RoiAlign: both modes, adaptive sampling, regions outside of the picture, and numbers that are none."""

from __future__ import annotations

import numpy as np
import pytest
from exact import problem_of
from oracle import execute, runnable_targets

from softneuro.codegen.target import Target, host
from softneuro.errors import InputError
from softneuro.ops.roi_align import RoiAlign
from softneuro.routines.roi_align import ROI_ALIGN_BINS_F32_CHL
from softneuro.types import Array

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 21, 9, 12)).astype(np.float32)
REGIONS = np.array([[0, 0, 5, 4], [-3, -2, 30, 20], [2, 2, 2, 2], [6, 5, 3, 1], [40, 40, 50, 50], [1.5, 0.25, 8, 8]], np.float32)
PICTURES = np.array([0, 1, 1, 0, 1, 0])
CASES = {
    "adaptive": RoiAlign(3, 2),
    "two_samples": RoiAlign(2, 4, sampling=2, scale=0.5),
    "whole_pixels": RoiAlign(3, 3, half_pixel=False),
    "largest": RoiAlign(2, 2, "max", 2),
    "largest_of_whole_pixels": RoiAlign(1, 1, "max", half_pixel=False),
}


def run(op: RoiAlign, feeds: tuple[Array, ...], target: Target, threads: int = 1) -> Array:
    problem = problem_of(op, *feeds, threads=threads)
    (signature,) = ROI_ALIGN_BINS_F32_CHL.signatures(problem)
    return execute(ROI_ALIGN_BINS_F32_CHL, problem, signature, {}, target, feeds, threads)[0]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, threads: int) -> None:
    feeds = X, REGIONS, PICTURES
    (want,) = CASES[name].reference(feeds)
    np.testing.assert_allclose(run(CASES[name], feeds, target, threads), want, rtol=1e-4, atol=1e-5)


def test_reads_nothing_outside_for_any_region() -> None:
    regions = np.resize(np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e6, 0, 5], np.float32), (6, 4))
    with np.errstate(all="ignore"):
        (want,) = RoiAlign(2, 2, sampling=2).reference((X, regions, PICTURES))
    np.testing.assert_allclose(run(RoiAlign(2, 2, sampling=2), (X, regions, PICTURES), host()), want, rtol=1e-4, atol=1e-5)


def test_picture_outside_is_refused_by_the_op_and_clamped_by_the_kernel() -> None:
    feeds = X, REGIONS[:2], np.array([2, -(2**62)])
    with pytest.raises(InputError, match="found picture 2, needed one from 0 to 1"):
        RoiAlign(2, 2).reference(feeds)
    (want,) = RoiAlign(2, 2).reference((X, REGIONS[:2], np.array([1, 0])))
    np.testing.assert_allclose(run(RoiAlign(2, 2), feeds, host()), want, rtol=1e-4, atol=1e-5)


def test_refusals_say_found_and_needed() -> None:
    with pytest.raises(InputError, match="needed floats of rank 4 with at least one pixel"):
        problem_of(RoiAlign(), X[0], REGIONS, PICTURES)
    with pytest.raises(InputError, match=r"needed f32\[n,4\] and n numbers"):
        problem_of(RoiAlign(), X, REGIONS, PICTURES[:2])
    with pytest.raises(ValueError, match="needed at least 1 bin and 0 to 1024 samples"):
        RoiAlign(sampling=-1)
