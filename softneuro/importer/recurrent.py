"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Literal

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node
from softneuro.ops.recurrent import Recurrent

__all__ = ["CONVERTERS", "recurrent_op"]

Kind = Literal["rnn", "gru", "lstm"]

# activation: program with {a} and {b}, defaults of alpha and beta (those it has)
_ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "relu": ("relu(x0)", ()),
    "tanh": ("tanh(x0)", ()),
    "sigmoid": ("sigmoid(x0)", ()),
    "softsign": ("softsign(x0)", ()),
    "softplus": ("softplus(x0)", ()),
    "leakyrelu": ("leaky_relu(x0,{a!r})", (0.01,)),
    "thresholdedrelu": ("thresholded_relu(x0,{a!r})", (1.0,)),
    "elu": ("elu(x0,{a!r})", (1.0,)),
    "hardsigmoid": ("hard_sigmoid(x0,{a!r},{b!r})", (0.2, 0.5)),
    "affine": ("mul(x0,{a!r});add(t0,{b!r})", (1.0, 0.0)),
    "scaledtanh": ("mul(x0,{b!r});tanh(t0);mul(t1,{a!r})", (1.0, 1.0)),
}
_DEFAULTS = {"rnn": ("Tanh",), "gru": ("Sigmoid", "Tanh"), "lstm": ("Sigmoid", "Tanh", "Tanh")}


def _programs(node: Node, names: list[str]) -> tuple[str, ...]:
    """Activations as pointwise programs. Those with parameters take the next number of each attribute list."""
    alphas, betas = iter(node.get("activation_alpha", ())), iter(node.get("activation_beta", ()))
    programs = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise node.unsupported(f"found activation {name!r}, needed one of {', '.join(_ACTIVATIONS)}")
        text, defaults = _ACTIVATIONS[name.lower()]
        values = [float(next(numbers, default)) for numbers, default in zip((alphas, betas), defaults, strict=False)]
        programs.append(text.format(**dict(zip("ab", values, strict=False))))
    return tuple(programs)


def recurrent_op(node: Node, kind: Kind) -> Recurrent | None:
    """The op of a node's attributes; None when the number of units is not known. Weights are its input 2."""
    weights, direction = node.shape(2), node.get("direction", "forward")
    hidden = node.get("hidden_size", weights[2] if weights is not None and len(weights) == 3 else None)
    if hidden is None:
        return None
    if direction not in ("forward", "reverse", "bidirectional"):
        raise node.error(f"found direction {direction!r}, needed forward, reverse or bidirectional")
    count = len(_DEFAULTS[kind]) * (2 if direction == "bidirectional" else 1)
    names = list(node.get("activations", ())) or [*_DEFAULTS[kind], *_DEFAULTS[kind]][:count]
    if len(names) != count:
        raise node.error(f"found {len(names)} activations, needed {count}")
    clip = node.get("clip")
    return Recurrent(
        kind,
        int(hidden),
        _programs(node, names),
        direction,
        None if clip is None else float(clip),
        linear_before_reset=bool(node.get("linear_before_reset", 0)),
        coupled=bool(node.get("input_forget", 0)),
        batch_first=bool(node.get("layout", 0)),
    )


def _all_outputs(node: Node, op: Recurrent) -> tuple[str, ...]:
    """The node's outputs with names for those that it leaves out: routines write all, and tell them by position."""
    absent = (3 if op.kind == "lstm" else 2) - len(node.outputs)
    return tuple(name or node.tensor(f"output{i}") for i, name in enumerate([*node.outputs, *[""] * absent]))


def _recurrent(kind: Kind) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...] | None:
        op = recurrent_op(node, kind)
        return None if op is None else (node.layer(op, outputs=_all_outputs(node, op)),)

    return convert


CONVERTERS: Converters = {"RNN": _recurrent("rnn"), "GRU": _recurrent("gru"), "LSTM": _recurrent("lstm")}
