"""Mutations of model, plan and profile files: by bytes, and by what the bytes mean."""
from __future__ import annotations

import copy
import hashlib
import json
import re
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

INTEGERS = (0, 1, -1, 2, 3, 7, 64, 255, 65536, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, -1e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "y", "a" * 300, "\0", "é", "..", "/", "{}", "ai.onnx.ml", "com.microsoft", "NaN", "1e999")
PREFIX = struct.Struct("<16sIIQ32s")  # of a plan file, see docs/plan-format.md

_INT_TYPES = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32,
              FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_ENUM)  # fmt: skip
_FLOAT_TYPES = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
OPERATORS = sorted({(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas_with_history()})


def mutated_bytes(data: bytes, rng: Random, other: bytes) -> bytes:
    """Flips, cuts, insertions and splices."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not changed:
            break
        place = rng.randrange(len(changed))
        kind = rng.randrange(7)
        if kind <= 2:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 3:
            changed[place] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 4:
            del changed[place : place + rng.choice((1, 2, 4, 16, 200))]
        elif kind == 5:
            changed[place:place] = rng.randbytes(rng.choice((1, 2, 4, 16)))
        else:
            start = rng.randrange(max(1, len(other)))
            length = rng.choice((1, 4, 16, 64, 400))
            changed[place : place + rng.choice((0, length))] = other[start : start + length]
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.1 else changed)


def mutated_model(data: bytes, rng: Random, other: bytes) -> bytes:
    """The model with some fields changed, or some bytes. ``other`` is a model to take parts of."""
    if rng.random() < 0.25:
        return mutated_bytes(data, rng, other)
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        _change_message(model, rng, other)
    try:
        return bytes(model.SerializeToString())
    except ValueError:
        return data


def _messages(message: Message, found: list[Message]) -> list[Message]:
    found.append(message)
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for item in value if field.is_repeated else (value,):
                _messages(item, found)
    return found


def _change_message(model: onnx.ModelProto, rng: Random, other: bytes) -> None:
    messages = _messages(model, [])
    target = rng.choice(messages)
    if isinstance(target, onnx.NodeProto) and rng.random() < 0.15:
        target.domain, target.op_type = rng.choice(OPERATORS)
        return
    fields = target.ListFields()
    field = rng.choice([f for f, _ in fields]) if fields and rng.random() < 0.85 else rng.choice(target.DESCRIPTOR.fields)
    alike = [m for m in messages if m.DESCRIPTOR is field.message_type]
    if field.message_type is not None and rng.random() < 0.3:
        alike += [m for m in _messages(onnx.ModelProto.FromString(other), []) if m.DESCRIPTOR is field.message_type]
    try:
        if field.is_repeated:
            _change_list(target, field, rng, alike, _names(messages))
        elif field.message_type is not None:
            if rng.random() < 0.4 or not alike:
                target.ClearField(field.name)
            else:
                getattr(target, field.name).CopyFrom(copy.deepcopy(rng.choice(alike)))
        else:
            setattr(target, field.name, _scalar(field, getattr(target, field.name), rng, _names(messages)))
    except (ValueError, TypeError, UnicodeDecodeError):
        pass  # a value that the field cannot hold


def _names(messages: list[Message]) -> list[str]:
    names = [m.name for m in messages if isinstance(m, (onnx.TensorProto, onnx.ValueInfoProto, onnx.AttributeProto))]
    return names + [n for m in messages if isinstance(m, onnx.NodeProto) for n in (*m.input, *m.output)] or [""]


def _change_list(target: Message, field: Any, rng: Random, alike: list[Message], names: list[str]) -> None:
    items = getattr(target, field.name)
    kind = rng.randrange(5)
    if field.message_type is not None:
        if kind <= 1 and alike:
            items.add().CopyFrom(copy.deepcopy(rng.choice(alike)))
        elif items:
            place = rng.randrange(len(items))
            if kind == 2 and alike:
                items[place].CopyFrom(copy.deepcopy(rng.choice(alike)))
            else:
                del items[place]
        return
    values = list(items)
    if not values or kind == 0:
        values.insert(rng.randrange(len(values) + 1), _scalar(field, values[0] if values else None, rng, names))
    elif kind == 1:
        del values[rng.randrange(len(values))]
    elif kind == 2:
        rng.shuffle(values)
    else:
        place = rng.randrange(len(values))
        values[place] = _scalar(field, values[place], rng, names)
    del items[:]
    items.extend(values)


def _scalar(field: Any, value: Any, rng: Random, names: list[str]) -> Any:
    if field.cpp_type in _INT_TYPES:
        return rng.choice((rng.choice(INTEGERS), (value or 0) + rng.choice((-1, 1)), rng.randrange(30)))
    if field.cpp_type in _FLOAT_TYPES:
        return rng.choice(FLOATS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return mutated_bytes(value or b"\0" * 8, rng, b"\xff\x80\0" * 9)
    return rng.choice((rng.choice(names), rng.choice(TEXTS)))


def mutated_plan(data: bytes, rng: Random, other: bytes) -> bytes:
    """The plan with its header's members changed (digest right again), or some bytes (right again or not)."""
    kind = rng.random()
    if kind < 0.1:
        return mutated_bytes(data, rng, other)
    length = PREFIX.unpack_from(data)[3]
    header, blobs = data[PREFIX.size : PREFIX.size + length], data[PREFIX.size + length :]
    if kind < 0.3:
        return packed_plan(mutated_bytes(header, rng, other), blobs)
    if kind < 0.35:
        return packed_plan(header, mutated_bytes(blobs, rng, other))
    tree = json.loads(header)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change_tree(tree, rng)
    return packed_plan(json.dumps(tree).encode(), blobs)


def packed_plan(header: bytes, blobs: bytes) -> bytes:
    """A plan file of these parts with the digest that it should have."""
    header += b" " * (-(len(header) + PREFIX.size) % 64)
    digest = hashlib.sha256(header + blobs).digest()
    return PREFIX.pack(b"softneuro plan\r\n", 1, 0, len(header), digest) + header + blobs


def _places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, (dict, list)):
            _places(value, found)
    return found


def change_tree(tree: Any, rng: Random) -> None:
    """Change one member somewhere below."""
    places = _places(tree, [])
    if not places:
        return
    (parent, key), (giver, its) = rng.choice(places), rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[key] = copy.deepcopy(giver[its])
    elif kind == 2 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(giver[its]))
    elif kind == 3:
        parent[key] = rng.choice((None, True, [], {}, [[]], {"": None}, rng.choice(INTEGERS), rng.choice(FLOATS),
                                  rng.choice(TEXTS)))
    else:
        parent[key] = _changed_value(parent[key], rng)


def _changed_value(value: Any, rng: Random) -> Any:
    if isinstance(value, str):
        numbers = list(re.finditer(r"-?\d+", value))
        if numbers and rng.random() < 0.8:
            match = rng.choice(numbers)
            number = rng.choice((rng.choice(INTEGERS), int(match[0]) + rng.choice((-1, 1)), rng.randrange(70)))
            return value[: match.start()] + str(number) + value[match.end() :]
        return mutated_bytes(value.encode(), rng, b"chl,chf;conv(-1)").decode("utf-8", "replace")
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return rng.choice((rng.choice(INTEGERS), value + 1, value - 1, 10**30))
    if isinstance(value, float):
        return rng.choice(FLOATS)
    return value[:-1] if isinstance(value, list) else {}


def mutated_profile(data: bytes, rng: Random, other: bytes) -> bytes:
    """The profile with some bytes or some members of a line changed."""
    if rng.random() < 0.4:
        return mutated_bytes(data, rng, other)
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    try:
        record = json.loads(lines[place])
    except ValueError:
        return mutated_bytes(data, rng, other)
    change_tree(record, rng)
    lines[place] = json.dumps(record).encode()
    if rng.random() < 0.2:
        rng.shuffle(lines)
    return b"\n".join(lines)


MUTATIONS: dict[str, Callable[[bytes, Random, bytes], bytes]] = {
    "model": mutated_model, "plan": mutated_plan, "profile": mutated_profile,
}  # fmt: skip
