"""Element-wise operators: every one is a program of one Pointwise layer."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node, tensor_dtype
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.view import Identity, Unsqueeze
from softneuro.types import Array, DType

__all__ = ["BINARY", "CONVERTERS", "MICROSOFT"]

_LARGEST_EXACT = 2**53  # integers up to here are numbers of a program's text

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseNot": "bit_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "HardSwish": "hard_swish", "IsNaN": "isnan", "Log": "log", "Mish": "mish", "Neg": "neg", "Not": "not",
    "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign",
    "Sin": "sin", "Sinh": "sinh",
    "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_WITH_PARAMETERS = {
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Celu": ("celu", {"alpha": 1.0}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
}
BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow", "And": "and", "Or": "or", "Xor": "xor",
    "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "PRelu": "prelu",
    "BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor",
}  # fmt: skip
_VARIADIC = {"Sum": "add", "Max": "max", "Min": "min", "Mean": "add"}


def _program(text: str) -> Converter:
    """A converter for an operator that always is this program."""
    return lambda node: (node.layer(Pointwise(text)),)


def _with_parameters(opcode: str, defaults: dict[str, float]) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...]:
        numbers = ",".join(repr(float(node.get(name, default))) for name, default in defaults.items())
        return (node.layer(Pointwise(f"{opcode}(x0,{numbers})")),)

    return convert


def _binary(opcode: str) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...]:
        before, second = _aligned(node)
        return (*before, node.layer(Pointwise(f"{opcode}(x0,x1)"), (node.inputs[0], second)))

    return convert


def _aligned(node: Node) -> tuple[tuple[Layer, ...], str]:
    """The second operand, with trailing axes where operators before opset 7 put it at an axis rather than the end."""
    second = node.inputs[1]
    axis = 1 if node.op_type == "PRelu" else node.get("axis")
    if node.opset >= 7 or axis is None or not (node.op_type == "PRelu" or node.get("broadcast", 0)):
        return (), second
    ranks = node.rank(0), node.rank(1)
    if ranks[0] is None or ranks[1] is None:
        raise node.unsupported(f"the ranks of its inputs are not known, needed them to align axis {axis}")
    missing = ranks[0] - (axis + ranks[0] if axis < 0 else axis) - ranks[1]
    if missing <= 0:
        return (), second
    aligned = node.tensor("aligned")
    return (node.layer(Unsqueeze(tuple(range(-missing, 0))), (second,), (aligned,)),), aligned


def _variadic(node: Node) -> tuple[Layer, ...]:
    count = len(node.inputs)
    opcode = _VARIADIC[node.op_type]
    if count == 1:
        return (node.layer(Identity()),)
    parts = [f"{opcode}(x0,x1)", *(f"{opcode}(t{i - 2},x{i})" for i in range(2, count))]
    if node.op_type == "Mean":
        parts.append(f"div(t{count - 2},{float(count)!r})")
    return (node.layer(Pointwise(";".join(parts))),)


def _literal(value: Array | None) -> str | None:
    """A scalar constant as a number of a program's text; None when it has no exact one."""
    if value is None or value.size != 1 or value.dtype.kind not in "fiuV":
        return None
    number = float(value.reshape(-1)[0])
    return repr(number) if value.dtype.kind == "f" or abs(number) <= _LARGEST_EXACT else None


def _clip(node: Node) -> tuple[Layer, ...]:
    if node.opset < 11:
        bounds = [np.array(node.get(name), np.float32) if name in node.attributes else None for name in ("min", "max")]
        has = [bound is not None for bound in bounds]
    else:
        bounds = [node.constant(position) for position in (1, 2)]
        has = [node.has(position) for position in (1, 2)]
    numbers = [_literal(bound) for bound in bounds]
    if numbers[0] and numbers[1]:
        return (node.layer(Pointwise(f"clip(x0,{numbers[0]},{numbers[1]})"), node.inputs[:1]),)
    inputs = [node.inputs[0]]
    program: list[str] = []
    for position, opcode in enumerate(("max", "min")):
        if not has[position]:
            continue
        operand = numbers[position]
        if operand is None:
            operand = f"x{len(inputs)}"
            inputs.append(node.inputs[1 + position])
        program.append(f"{opcode}({'t0' if program else 'x0'},{operand})")
    if not program:
        return (node.layer(Identity(), node.inputs[:1]),)
    text = ";".join(program)
    return (node.layer(Pointwise("relu(x0)" if text == "max(x0,0.0)" else text), inputs),)


def _cast(node: Node) -> tuple[Layer, ...] | None:
    return _cast_to(node, tensor_dtype(_element(node.get("to"))))


def _element(to: int | str) -> int:
    """The element type, which opsets before 6 name."""
    import onnx

    return onnx.TensorProto.DataType.Value(to) if isinstance(to, str) else to


def _cast_to(node: Node, target: DType) -> tuple[Layer, ...] | None:
    if target in (DType.STR, DType.OTHER) or node.dtype(0) is DType.STR:
        return None
    return (node.layer(Pointwise(f"cast_{target}(x0)"), node.inputs[:1]),)


def _cast_like(node: Node) -> tuple[Layer, ...] | None:
    return _cast_to(node, node.dtype(1))


def _gelu(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Pointwise("gelu_tanh(x0)" if node.get("approximate", "none") == "tanh" else "gelu(x0)")),)


def _is_inf(node: Node) -> tuple[Layer, ...]:
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    if positive and negative:
        return (node.layer(Pointwise("isinf(x0)")),)
    infinity = {(1, 0): "inf", (0, 1): "-inf"}.get((positive, negative))
    return (node.layer(Pointwise(f"equal(x0,{infinity})" if infinity else "isinf(x0);less(x0,x0);and(t0,t1)")),)


def _mod(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Pointwise("fmod(x0,x1)" if node.get("fmod", 0) else "mod(x0,x1)")),)


def _bit_shift(node: Node) -> tuple[Layer, ...]:
    directions = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    direction = node.get("direction")
    if direction not in directions:
        raise node.error(f"found direction {direction!r}, needed one of {', '.join(directions)}")
    return (node.layer(Pointwise(f"{directions[direction]}(x0,x1)")),)


def _shrink(node: Node) -> tuple[Layer, ...]:
    bias, limit = float(node.get("bias", 0.0)), float(node.get("lambd", 0.5))
    return (
        node.layer(
            Pointwise(
                f"less(x0,{-limit!r});add(x0,{bias!r});greater(x0,{limit!r});sub(x0,{bias!r});where(t2,t3,0.0);where(t0,t1,t4)"
            )
        ),
    )


def _swish(default: float) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...]:
        alpha = float(node.get("alpha", default))
        return (node.layer(Pointwise("silu(x0)" if alpha == 1.0 else f"mul(x0,{alpha!r});sigmoid(t0);mul(x0,t1)")),)

    return convert


def _biased_gelu(opcode: str) -> Converter:
    """Gelu of x plus an optional bias along the last axis."""

    def convert(node: Node) -> tuple[Layer, ...]:
        return (node.layer(Pointwise(f"add(x0,x1);{opcode}(t0)" if node.has(1) else f"{opcode}(x0)")),)

    return convert


CONVERTERS: Converters = {
    **{op_type: _program(f"{opcode}(x0)") for op_type, opcode in _UNARY.items()},
    **{op_type: _with_parameters(*form) for op_type, form in _WITH_PARAMETERS.items()},
    **{op_type: _binary(opcode) for op_type, opcode in BINARY.items()},
    **dict.fromkeys(_VARIADIC, _variadic),
    "BitShift": _bit_shift,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Gelu": _gelu,
    "IsInf": _is_inf,
    "Mod": _mod,
    "Shrink": _shrink,
    "Swish": _swish(1.0),
    "Where": _program("where(x0,x1,x2)"),
}
MICROSOFT: Converters = {
    "BiasGelu": _biased_gelu("gelu"),
    "FastGelu": _biased_gelu("gelu_tanh"),
    "Gelu": _program("gelu(x0)"),
    "QuickGelu": _swish(1.702),
}
