"""Elementary functions and activations of float32 vectors against float64, over the whole range."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from oracle import execute, runnable_targets

from softneuro.codegen import elementary, power
from softneuro.codegen.target import Target
from softneuro.ops.epilogue import ACTIVATIONS, Epilogue
from softneuro.ops.pointwise import Pointwise, input_count
from softneuro.problem import Problem
from softneuro.routines.pointwise import POINTWISE_FUSED_F32_CHF
from softneuro.types import Array, DType, TensorType

_RNG = np.random.default_rng(0)
_ANY_BITS = _RNG.integers(0, 2**32, 60000, dtype=np.uint64).astype(np.uint32).view(np.float32)
SAMPLES = np.concatenate([
    _ANY_BITS[~np.isnan(_ANY_BITS)],
    np.linspace(-120, 120, 60001, dtype=np.float32),
    np.linspace(-4, 4, 40001, dtype=np.float32),
    np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 3e38, -3e38], np.float32),
])  # fmt: skip
DENORMAL = 2.0**-149
_erf, _erfc = np.vectorize(math.erf, otypes=[np.float64]), np.vectorize(math.erfc, otypes=[np.float64])


def run(program: str, target: Target, *values: Array) -> Array:
    """The program through the fused routine, as float64."""
    types = tuple(TensorType(DType.F32, v.shape) for v in values)
    problem = Problem.of(Pointwise(program), types, (False,) * len(types))
    (signature,) = POINTWISE_FUSED_F32_CHF.signatures(problem)
    (result,) = execute(POINTWISE_FUSED_F32_CHF, problem, signature, {}, target, values)
    return result.astype(np.float64)


def ulps(got: Array, want: Array) -> Array:
    """Errors in units of the last place of the wanted float32; values must agree where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    spacing = np.maximum(np.spacing(np.abs(rounded[finite])).astype(np.float64), DENORMAL)
    errors = np.zeros(want.shape)
    errors[finite] = np.abs(got[finite] - want[finite]) / spacing
    return errors


def _sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(x < 0, decay, 1) / (1 + decay)


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


PRECISE: dict[str, Callable[[Array], Array]] = {
    "exp(x0)": np.exp,
    "log(x0)": np.log,
    "tanh(x0)": np.tanh,
    "erf(x0)": _erf,
    "sigmoid(x0)": _sigmoid,
    "softplus(x0)": _softplus,
    "softsign(x0)": lambda x: x / (1 + np.abs(x)),
    "elu(x0,1.0)": lambda x: np.where(x < 0, np.expm1(x), x),
    "selu(x0,1.6732631921768188,1.0507010221481323)":
        lambda x: 1.0507010221481323 * np.where(x < 0, 1.6732631921768188 * np.expm1(x), x),
    "celu(x0,0.5)": lambda x: np.where(x < 0, 0.5 * np.expm1(x / 0.5), x),
    "sqrt(x0)": np.sqrt,
    "reciprocal(x0)": lambda x: 1 / x,
    "pow(x0,3.0)": lambda x: x**3,
    "pow(x0,-2.0)": lambda x: x**-2.0,
    "pow(x0,1.7)": lambda x: np.power(x, float(np.float32(1.7))),
    "pow(x0,-0.3)": lambda x: np.power(x, float(np.float32(-0.3))),
}
"""To 4 units in the last place everywhere."""
PRODUCTS: dict[str, Callable[[Array], Array]] = {
    "silu(x0)": lambda x: x * _sigmoid(x),
    "gelu(x0)": lambda x: np.where(x == -np.inf, 0.0, 0.5 * x * _erfc(-x / math.sqrt(2))),
    "gelu_tanh(x0)": lambda x: x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "mish(x0)": lambda x: x * np.tanh(_softplus(x)),
}
"""x times a factor that falls to 0 exponentially: to 6 units in the last place, or to 1e-8 |x|."""

TARGETS = runnable_targets()
on_every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@on_every_target
@pytest.mark.parametrize("program", PRECISE)
def test_precise_over_the_whole_range(program: str, target: Target) -> None:
    with np.errstate(all="ignore"):
        want = PRECISE[program](SAMPLES.astype(np.float64))
    errors = ulps(run(program, target, SAMPLES), want)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 4, f"{errors[worst]:.1f} ulp at {SAMPLES[worst]!r}"


@on_every_target
@pytest.mark.parametrize("program", PRODUCTS)
def test_products_are_precise_in_absolute_terms(program: str, target: Target) -> None:
    wide = SAMPLES.astype(np.float64)
    with np.errstate(all="ignore"):
        want = PRODUCTS[program](wide)
        got = run(program, target, SAMPLES)
        small = np.abs(got - want) <= 1e-8 * np.abs(wide)
    errors = np.where(small, 0, ulps(got, want))
    worst = int(np.argmax(errors))
    assert errors[worst] <= 6, f"{errors[worst]:.1f} ulp at {SAMPLES[worst]!r}"


@on_every_target
def test_general_power_of_two_vectors(target: Target) -> None:
    rng = np.random.default_rng(5)
    x = np.exp(rng.uniform(-80, 80, 20000)).astype(np.float32)
    y = rng.uniform(-3, 3, x.size).astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(run("pow(x0,x1)", target, x, y), want).max() <= 2


@on_every_target
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_of_the_epilogue_matches_its_definition(name: str, target: Target) -> None:
    parameters = {"clip": (-0.5, 0.75), "leaky_relu": (0.1,), "hard_sigmoid": (0.2, 0.5)}.get(name, ())
    program = f"{name}({','.join(['x0', *map(str, parameters)])})"
    assert input_count(program) == 1
    x = np.linspace(-8, 8, 1001, dtype=np.float32)
    want = ACTIVATIONS[name].reference(x.astype(np.float64), *parameters)
    np.testing.assert_allclose(run(program, target, x), want, rtol=1e-6, atol=1e-6)


def _chebyshev(low: float, high: float) -> Array:
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    return np.polynomial.polynomial.polyval(x, coefficients)


def _exp_tail() -> Array:
    r = _chebyshev(-math.log(2) / 2, math.log(2) / 2)
    return (r + r * r * _polynomial(elementary.EXP_TAIL, r)) / np.expm1(r) - 1


def _log_tail() -> Array:
    f = _chebyshev(math.sqrt(0.5) - 1, math.sqrt(2) - 1)
    return (f - f * f / 2 + f**3 * _polynomial(elementary.LOG_TAIL, f)) / np.log1p(f) - 1


def _normal_tail() -> Array:
    t = _chebyshev(0, 14.6)
    u = 1 / (1 + elementary.TAIL_SCALE * t)
    return np.exp(-t * t / 2) * u * _polynomial(elementary.TAIL, u) / (0.5 * _erfc(t / math.sqrt(2))) - 1


def _small_erf() -> Array:
    x = _chebyshev(0, 0.9)
    return (x + x * _polynomial(elementary.ERF, x * x)) / _erf(x) - 1


def _large_erf() -> Array:
    x = _chebyshev(0.9, 4)
    return (1 - np.exp(_polynomial(elementary.LOG_ERFC, x))) / _erf(x) - 1


def _atanh_tail() -> Array:
    s = _chebyshev(0.001, 0.1716)
    return s * (1 + s * s * _polynomial(power.ATANH_TAIL, s * s)) / np.arctanh(s) - 1


@pytest.mark.parametrize(("error", "bound"), [
    (_exp_tail, 1.4e-8), (_log_tail, 5.9e-9), (_normal_tail, 6.3e-8), (_small_erf, 1.5e-8), (_large_erf, 2.8e-8),
    (_atanh_tail, 4e-14),
])  # fmt: skip
def test_polynomials_keep_their_stated_error(error: Callable[[], Array], bound: float) -> None:
    assert np.abs(error()).max() < bound


@pytest.mark.parametrize("name", ["sigmoid", "silu", "tanh", "gelu", "gelu_tanh"])
def test_epilogue_references_take_large_values_without_a_warning(name: str) -> None:
    x = np.array([-1e4, -200.0, 0.0, 200.0, 1e4], np.float32)
    y = Epilogue(name).reference(x, None)
    low, high = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}.get(name, (0.0, 1e4))
    assert y[0] == pytest.approx(low, abs=1e-6) and y[-1] == pytest.approx(high)
