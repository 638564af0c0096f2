"""Seeded random weights that keep activations of order one through a deep net."""
from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

# How much the weights must amplify the variance so that the output of a layer has unit variance,
# by what came before it: 1 / Var[f(z)] of a standard normal z.
AFTER_LINEAR = 1.0
AFTER_RELU = 2.0 / (1.0 - 1.0 / math.pi)
AFTER_HARD_SWISH = 3.27
SQUEEZE_EXCITE_GAIN = 4.0  # a gate of HardSigmoid near 0.5 quarters the variance


def he_normal(rng: np.random.Generator, shape: tuple[int, ...], fan_in: int,
              gain: float = AFTER_RELU) -> Array:
    """Centred normal weights of variance gain / fan_in (He et al. 2015, "Delving Deep into Rectifiers").

    The weights of every output sum to 0 (Qiao et al. 2019, "Weight Standardization"): else the positive mean
    that a ReLU gives its output grows from layer to layer until the result hardly depends on the image.
    """
    weights = rng.standard_normal((math.prod(shape) // fan_in, fan_in), dtype=np.float32)
    weights -= weights.mean(axis=1, keepdims=True)
    weights *= np.float32(math.sqrt(gain / fan_in))
    return weights.reshape(shape)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Biases, and means of batch norms: near 0."""
    return rng.normal(0.0, 0.1, shape).astype(np.float32)


def scales(rng: np.random.Generator, shape: tuple[int, ...], amplitude: float = 1.0) -> Array:
    """Scales of batch norms: within a quarter of `amplitude`."""
    return (amplitude * rng.uniform(0.75, 1.25, shape)).astype(np.float32)


def variances(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Variances of batch norms: positive, of median 1."""
    return rng.lognormal(0.0, 0.3, shape).astype(np.float32)
