"""Peaks: the kernels' chains have the values that the instructions are defined to give, and rates are counted right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from softneuro.codegen import target as targets
from softneuro.codegen.compile import assembly
from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.runtime.team import Team
from softneuro.tuning import peak
from softneuro.tuning.peak import DTYPES, Peak, arithmetic, measure_peak

TARGETS = {t.name: t for t in (targets.host(), targets.avx2(), targets.baseline())}
A, B = (7, 250, 3, 90), (-100, 127, -128, 5)


def run(spec: KernelSpec, target: Target, steps: int, factors: bytes, threads: int, dtype: type) -> np.ndarray:
    """The sums that the threads leave in the sink."""
    sink, numbers = np.zeros((threads, 16), dtype), np.frombuffer(factors, np.uint8)
    words = np.array([steps, numbers.ctypes.data, sink.ctypes.data], np.int64)
    Team(threads, target).run(address(spec, target), words.ctypes.data)
    assert not sink[:, 1:].any(), "written beside its place"
    return sink[:, 0]


def needs(dtype: str, target: Target) -> KernelSpec:
    kernel = arithmetic(dtype, target).kernel
    if kernel is None:
        pytest.skip(f"{target.name}: {arithmetic(dtype, target).instructions}")
    return kernel


def saturated_dot(value: int, b: tuple[int, ...]) -> int:
    """What pmaddubsw and pmaddwd make of the bytes of a 32-bit number."""
    a = np.array([value & 0xFFFFFFFF], np.uint32).view(np.uint8).astype(int)
    products = a * np.array(b)
    return int(np.clip(products[0::2] + products[1::2], -(1 << 15), (1 << 15) - 1).sum())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 7, 1000])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_int8_chains(target: Target, steps: int, threads: int) -> None:
    spec = needs("int8", target)
    literals = dict(spec.literals)
    factors = bytes(A) + np.array(B, np.int8).tobytes()
    found = run(spec, target, steps, factors, threads, np.int32)
    if literals["dot"]:
        value = steps * sum(x * y for x, y in zip(A, B, strict=True))
    else:
        value = int.from_bytes(bytes(A), "little")
        for _ in range(steps):
            value += saturated_dot(value, B)
    expected = np.array([int(literals["chains"]) * value & 0xFFFFFFFF], np.uint32).view(np.int32)
    assert (found == expected).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 7, 1000])
def test_bf16_chains(steps: int, threads: int) -> None:
    target = targets.host()
    spec = needs("bf16", target)
    pairs = np.array([0.5, 3.0, -1.0, 0.25], np.float32).view(np.uint32) >> 16
    found = run(spec, target, steps, pairs.astype(np.uint16).tobytes(), threads, np.float32)
    assert (found == int(dict(spec.literals)["chains"]) * steps * (0.5 * -1.0 + 3.0 * 0.25)).all()


def wide(features: str, bits: int = 512) -> Target:
    return Target("made_up", "x86_64-unknown-linux-gnu", "x86-64", features, bits, 32 if bits == 512 else 16, True)


@pytest.mark.parametrize(("target", "bf16", "int8"), [
    (wide("+avx512f,+avx512bf16,+avx512vnni"), "vdpbf16ps", "vpdpbusd"),
    (wide("+avx512f,+avx512bw,-avx512vnni,-avx512bf16"), None, "pmaddubsw, pmaddwd and paddd"),
    (wide("+avx512f"), None, None),
    (wide("+avx2,+fma,+avxvnni", 256), None, "vpdpbusd"),
    (wide("+avx2,+fma,-avxvnni", 256), None, "pmaddubsw, pmaddwd and paddd"),
    (targets.avx2(), None, "pmaddubsw, pmaddwd and paddd"),
    (targets.baseline(), None, "pmaddubsw, pmaddwd and paddd"),
    (Target("neon", "aarch64-unknown-linux-gnu", "generic", "+neon,+bf16,+dotprod", 128, 32, True), None, None),
], ids=["all", "no_vnni", "neither_vnni_nor_bytes", "avx_vnni", "features_that_are_off", "avx2", "sse4", "aarch64"])  # fmt: skip
def test_which_instructions(target: Target, bf16: str | None, int8: str | None) -> None:
    for dtype, expected in (("bf16", bf16), ("int8", int8)):
        how = arithmetic(dtype, target)
        assert (how.kernel is not None) == (expected is not None)
        assert how.instructions == expected if expected else len(how.instructions.split()) > 3
    assert arithmetic("f32", target).kernel is not None


@pytest.mark.parametrize(("dtype", "target"), [
    ("bf16", wide("+avx512f,+avx512bf16,+avx512vl")), ("int8", wide("+avx512f,+avx512vl,+avx512vnni,+avx512bw")),
    ("int8", wide("+avx2,+fma,+avxvnni", 256)), ("int8", targets.avx2()),
    ("int8", wide("+avx512f,+avx512vl,+avx512bw")), ("int8", targets.baseline()),
], ids=["bf16", "vnni", "avx_vnni", "avx2", "avx512_without_vnni", "sse4"])  # fmt: skip
def test_every_chain_is_computed_in_every_step(dtype: str, target: Target) -> None:
    """Also for processors that this one is not: the loop holds the instruction at least once for each chain."""
    how = arithmetic(dtype, target)
    assert how.kernel is not None
    lines = assembly(how.kernel, target).splitlines()
    instruction = how.instructions.split()[0].split(",")[0]
    chains = int(dict(how.kernel.literals)["chains"])
    assert sum(instruction in line for line in lines) >= chains
    assert not any("(%rsp)" in line and "mm" in line for line in lines), "a chain is kept in memory"


def ticking(ns: int) -> Iterator[int]:
    """A clock that gains ``ns`` from look to look."""
    return itertools.count(0, ns)


def test_rates_are_operations_by_time() -> None:
    target = targets.baseline()
    clock = ticking(4_000_000)
    found = measure_peak(target, 1, lambda: next(clock), dtypes=DTYPES, levels=("L1",))
    chains = 12
    assert found.gflops == pytest.approx(2 * chains * 4 / 4e-3 / 1e9)
    assert found.narrow == {"int8": pytest.approx(2 * chains * 16 / 4e-3 / 1e9)}
    assert list(found.read_gbps) == ["L1"]
    assert found.read_gbps["L1"] > 0


def test_f32_alone_is_the_default() -> None:
    clock = ticking(4_000_000)
    found = measure_peak(targets.baseline(), 2, lambda: next(clock), levels=())
    assert (found.threads, found.read_gbps, found.narrow) == (2, {}, {})
    assert Peak(1, 1.0, {}) == replace(found, threads=1, gflops=1.0)


def test_steady_times_are_those_of_the_clock() -> None:
    clock = ticking(5_000_000)
    assert peak.steady_times(targets.baseline(), 1, 7, lambda: next(clock)) == [5_000_000] * 7
