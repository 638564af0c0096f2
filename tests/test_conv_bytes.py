"""conv.igemm.qint8.chl: to the bit as integer sums in numpy, on problems named by the edge they hit."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace

import numpy as np
import oracle
import pytest
from byte_reference import BYTES, chosen, expected, real_result
from oracle import Case, as_kept, cases, execute, random_inputs, rounding_bound, runnable_targets

from softneuro.codegen.target import host
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation, encoded
from softneuro.routines.conv_igemm_bytes import CONV_IGEMM_QINT8_CHL
from softneuro.types import Array, DType, TensorType

RELU, CLIP = Epilogue("relu"), Epilogue("clip", (-0.5, 1.25))
X, Y, R = Quantisation(0.02, 117), Quantisation(0.05, 90), Quantisation(0.013, 131)


def conv(x: tuple[int, ...], k: int, kernel: tuple[int, ...], *, strides: tuple[int, ...] | None = None,
         pads: tuple[int, ...] | None = None, dilations: tuple[int, ...] | None = None, groups: int = 1, bias: bool = True,
         epilogue: Epilogue = NO_EPILOGUE, zeros: tuple[int, int] = (117, 90), scale: float = 0.05) -> Problem:
    rank = len(kernel)
    op = Conv(strides or (1,) * rank, pads or (0,) * 2 * rank, dilations or (1,) * rank, groups, bias, epilogue)
    inputs = [TensorType(DType.F32, x), TensorType(DType.F32, (k, x[1] // groups, *kernel))]
    if bias:
        inputs.append(TensorType(DType.F32, (k,)))
    constant = [False] + [True] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        constant.append(False)
    quantisations: list[Quantisation | None] = [None] * len(inputs)
    quantisations[0] = replace(X, zero=zeros[0])
    if epilogue.residual:
        quantisations[-1] = R
    problem = Problem.of(op, tuple(inputs), tuple(constant))
    return problem.quantised([*quantisations, Quantisation(scale, zeros[1])])


SAME = (1, 1, 1, 1)
EXACT = {
    "pointwise": conv((1, 8, 5, 5), 16, (1, 1)),
    "many_tiles": conv((1, 64, 9, 9), 130, (1, 1), epilogue=RELU),
    "three_by_three_same": conv((1, 16, 7, 7), 64, (3, 3), pads=SAME, epilogue=RELU),
    "no_zero_point": conv((1, 16, 7, 7), 33, (3, 3), pads=SAME, epilogue=RELU, zeros=(0, 0)),
    "highest_zero_point": conv((1, 12, 7, 7), 20, (3, 3), pads=SAME, zeros=(255, 255)),
    "unaligned_channels": conv((2, 5, 6, 7), 37, (3, 3), pads=(1, 0, 1, 2)),
    "seven_channels": conv((1, 7, 5, 5), 64, (1, 1), epilogue=CLIP),
    "thirty_channels": conv((1, 30, 6, 6), 24, (3, 3), pads=SAME),
    "seventy_channels": conv((1, 70, 4, 4), 70, (2, 2)),
    "one_channel": conv((1, 1, 9, 9), 17, (3, 3), pads=SAME),
    "two_channels": conv((1, 2, 9, 9), 17, (5, 5), pads=(2, 2, 2, 2), epilogue=RELU),
    "three_channels_stride_two": conv((1, 3, 9, 11), 24, (3, 3), strides=(2, 2), pads=SAME, bias=False),
    "stride_three": conv((1, 9, 10, 10), 32, (2, 2), strides=(3, 3), bias=False),
    "dilated": conv((1, 4, 11, 9), 8, (3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
    "grouped": conv((1, 12, 6, 6), 40, (3, 3), groups=4, pads=SAME),
    "groups_of_five": conv((1, 15, 6, 6), 66, (1, 1), groups=3, epilogue=RELU),
    "one_pixel": conv((1, 64, 1, 1), 50, (1, 1)),
    "pad_wider_than_kernel": conv((1, 4, 3, 3), 8, (2, 2), pads=(3, 3, 3, 3)),
    "one_dimensional": conv((2, 6, 19), 20, (5,), pads=(2, 2), strides=(2,)),
    "three_dimensional": conv((1, 3, 4, 5, 6), 17, (2, 3, 2), pads=(1, 1, 0, 0, 1, 1)),
    "saturates": conv((1, 32, 5, 5), 48, (3, 3), pads=SAME, scale=0.001),
    "hardly_moves": conv((1, 32, 5, 5), 48, (1, 1), scale=10.0),
    "far_beyond": conv((1, 32, 5, 5), 48, (1, 1), scale=1e-12, bias=False),
    "clipped": conv((1, 16, 5, 5), 48, (1, 1), epilogue=CLIP),
    "clipped_beyond_the_bytes": conv((1, 16, 5, 5), 48, (1, 1), epilogue=Epilogue("clip", (-100.0, 100.0))),
    "relu_six_without_zero_point": conv((1, 16, 5, 5), 96, (1, 1), epilogue=Epilogue("clip", (0.0, 6.0)), zeros=(3, 0)),
}  # fmt: skip
NEAR = {
    "residual_before": conv((1, 16, 5, 5), 33, (1, 1), epilogue=Epilogue("", (), "before")),
    "residual_before_relu": conv((1, 16, 5, 5), 64, (1, 1), epilogue=Epilogue("relu", (), "before")),
    "residual_before_clip": conv((1, 16, 5, 5), 40, (1, 1), epilogue=Epilogue("clip", (-0.5, 1.25), "before")),
    "residual_after_nothing": conv((1, 16, 5, 5), 40, (1, 1), epilogue=Epilogue("", (), "after")),
    "residual_after_relu": conv((1, 16, 5, 5), 40, (1, 1), epilogue=Epilogue("relu", (), "after")),
    "residual_after_silu": conv((1, 16, 5, 5), 16, (1, 1), epilogue=Epilogue("silu", (), "after")),
    "residual_before_silu": conv((1, 16, 5, 5), 80, (1, 1), epilogue=Epilogue("silu", (), "before")),
    "hard_swish": conv((1, 16, 5, 5), 72, (1, 1), epilogue=Epilogue("hard_swish")),
    "sigmoid": conv((1, 16, 5, 5), 20, (3, 3), pads=SAME, epilogue=Epilogue("sigmoid"), scale=0.004, zeros=(3, 0)),
    "leaky_relu": conv((1, 16, 5, 5), 20, (3, 3), pads=SAME, epilogue=Epilogue("leaky_relu", (0.1,))),
}
TARGETS = runnable_targets()
EXACT_CASES, NEAR_CASES = (chosen(cases(CONV_IGEMM_QINT8_CHL, listed, TARGETS)) for listed in (EXACT, NEAR))


def _run(case: Case, threads: int = 1) -> tuple[Array, list[Array | None]]:
    _, problem, signature, schedule, target = case
    values = as_kept(problem, signature, random_inputs(problem, np.random.default_rng(len(case[0])), exact=False))
    return execute(CONV_IGEMM_QINT8_CHL, problem, signature, schedule, target, values, threads)[0], values


def _check_exact(case: Case, threads: int = 1) -> None:
    _, problem, signature, _, target = case
    found, values = _run(case, threads)
    kept = signature.outputs[0]
    want = expected(problem, values, target, as_bytes=kept.dtype is BYTES)
    if kept.dtype is BYTES:
        listed = np.moveaxis(encoded(found, kept, problem.output_quantisation()), -1, 1)
        np.testing.assert_array_equal(listed, want)
    elif kept.dtype is DType.F32:
        np.testing.assert_array_equal(found, want)
    else:
        np.testing.assert_array_equal(found, want.astype(kept.dtype.numpy).astype(np.float32))


@pytest.mark.parametrize("case", EXACT_CASES, ids=[c[0] for c in EXACT_CASES])
def test_equals_integer_sums(case: Case) -> None:
    _check_exact(case)


@pytest.mark.parametrize("case", NEAR_CASES, ids=[c[0] for c in NEAR_CASES])
def test_other_epilogues_are_within_a_step(case: Case) -> None:
    _, problem, signature, _, _ = case
    found, values = _run(case)
    want = real_result(problem, values)
    if signature.outputs[0].dtype is BYTES:
        y = problem.output_quantisation()
        assert y is not None
        want = np.clip(want, y.low, y.high)
    scale = float(np.max(np.abs(want)))
    bound = 1e-5 * scale + rounding_bound(problem, signature, 0, scale) * (0.51 if signature.outputs[0].dtype is BYTES else 1)
    np.testing.assert_allclose(found, want, rtol=0, atol=bound)


@pytest.mark.parametrize("name", ["unaligned_channels", "grouped", "many_tiles"])
def test_work_is_shared_by_threads(name: str) -> None:
    for case in EXACT_CASES:
        if case[0].startswith(name):
            _check_exact(case, threads=3)


class BeforeTheEnd:
    """An array that ends where readable memory does; stands in for `oracle.Guarded`."""

    def __init__(self, array: Array) -> None:
        page = mmap.PAGESIZE
        size = -(-array.nbytes // page) * page
        self._memory = mmap.mmap(-1, size + page)
        whole = np.frombuffer(self._memory, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(whole.ctypes.data + size), ctypes.c_size_t(page), 0) == 0
        self.array = whole[size - array.nbytes : size].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def address(self) -> int:
        return int(self.array.ctypes.data)

    def check(self, what: str) -> None:
        """Nothing can have been written there."""


@pytest.mark.parametrize("name", ["unaligned_channels", "seven_channels", "one_channel", "two_channels", "groups_of_five",
                                  "three_channels_stride_two", "many_tiles", "one_dimensional"])
def test_reads_nothing_past_buffers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "Guarded", BeforeTheEnd)
    for case in EXACT_CASES:
        if case[0].startswith(name):
            _check_exact(case)


def test_needs_a_quantisation() -> None:
    problem = replace(EXACT["pointwise"], quantisations=())
    assert CONV_IGEMM_QINT8_CHL.reject(problem, host()) == "found no quantisation of the input, needed one"
    outputs = [s.outputs[0].dtype for s in CONV_IGEMM_QINT8_CHL.signatures(problem)]
    assert outputs == [DType.F32, DType.BF16]
