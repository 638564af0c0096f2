"""The epilogue of convolutions and matrix products: residual add and activation before the store."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from softneuro.types import Array

__all__ = ["ACTIVATIONS", "NO_EPILOGUE", "Activation", "Epilogue"]


@dataclass(frozen=True)
class Activation:
    """A function of one element: how many parameters it has and its numpy meaning."""

    parameters: int
    reference: Callable[..., Array]


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: Mapping[str, Activation] = {
    "relu": Activation(0, lambda x: np.maximum(x, 0.0)),
    "clip": Activation(2, lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    "leaky_relu": Activation(1, lambda x, alpha: np.where(x < 0, alpha * x, x)),
    "sigmoid": Activation(0, _sigmoid),
    "hard_sigmoid": Activation(2, lambda x, alpha, beta: np.clip(alpha * x + beta, 0.0, 1.0)),
    "hard_swish": Activation(0, lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)),
    "silu": Activation(0, lambda x: x * _sigmoid(x)),
    "tanh": Activation(0, np.tanh),
    "gelu": Activation(0, lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))),
    "gelu_tanh": Activation(0, _gelu_tanh),
}
"""The activations an epilogue can apply, by name: the one list."""

_TEXT = re.compile(r"^(?:(?P<name>[a-z_]+)(?:\((?P<parameters>[^()]*)\))?)?$")


@dataclass(frozen=True)
class Epilogue:
    """``activation(product + bias + residual)``, or with residual ``after``, ``activation(product + bias) + residual``.

    The residual is the layer's last input, added with numpy's broadcasting to the output's shape.
    Text form: ``relu``, ``clip(0.0,6.0)``, ``before:relu``, ``silu:after``, ``before:`` or the empty text.
    """

    activation: str = ""
    parameters: tuple[float, ...] = ()
    residual: Literal["", "before", "after"] = ""

    def __post_init__(self) -> None:
        if self.activation and len(self.parameters) != ACTIVATIONS[self.activation].parameters:
            raise ValueError(f"epilogue {self.activation}: found {len(self.parameters)} parameters, "
                             f"needed {ACTIVATIONS[self.activation].parameters}")

    def __str__(self) -> str:
        arguments = f"({','.join(repr(float(p)) for p in self.parameters)})" if self.parameters else ""
        body = self.activation + arguments
        return {"": body, "before": f"before:{body}", "after": f"{body}:after"}[self.residual]

    @classmethod
    def parse(cls, text: str) -> Epilogue:
        """Inverse of ``str``. Raises ValueError for anything else."""
        residual: Literal["", "before", "after"] = ""
        body = text
        if text.startswith("before:"):
            residual, body = "before", text.removeprefix("before:")
        elif text.endswith(":after"):
            residual, body = "after", text.removesuffix(":after")
        match = _TEXT.match(body)
        if match is None or (match["name"] and match["name"] not in ACTIVATIONS):
            raise ValueError(f"epilogue {text!r}: needed one of {', '.join(ACTIVATIONS)}, with parameters in brackets")
        parameters = tuple(float(p) for p in (match["parameters"] or "").split(",") if p)
        return cls(match["name"] or "", parameters, residual)

    def reference(self, value: Array, residual: Array | None) -> Array:
        """Apply to ``value`` (any float type)."""
        if residual is not None and self.residual == "before":
            value = value + residual
        if self.activation:
            with np.errstate(over="ignore", invalid="ignore"):  # exp(-x) may be infinite: the result is right all the same
                value = ACTIVATIONS[self.activation].reference(value, *self.parameters)
        if residual is not None and self.residual == "after":
            value = value + residual
        return value


NO_EPILOGUE = Epilogue()
