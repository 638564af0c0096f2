"""Sessions that see many input shapes: memory stays bounded, and what depends on the shape is made anew."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_specialisation import SKETCHES, Sketch, feeds_of, shapes_of
from test_stages import picked_rows

from softneuro import reference
from softneuro.importer.model import import_model
from softneuro.runtime import Session, bodies
from softneuro.tuning.tune import tune
from softneuro.types import Array

Sizes = tuple[int, int, int]
_SETTLED = 20  # shapes after which whatever is made once is made, and the oldest shapes are forgotten


def scaled_weights() -> onnx.ModelProto:
    """Matrix weights that shape arithmetic makes: the ones of one shape are wrong for every other."""
    s = Sketch()
    x = s.input("n", "t", 6)
    size = s.add("Cast", s.add("Slice", s.add("Shape", x), s.ints(1), s.ints(2)), to=onnx.TensorProto.FLOAT)
    weights = s.add("Mul", s.add("ConstantOfShape", s.ints(6, 8), value=onnx.numpy_helper.from_array(np.ones(1, np.float32))),
                    size)  # fmt: skip
    return s.model(s.add("MatMul", x, weights))


MODELS = {name: SKETCHES[name] for name in ("pyramid_linear", "attention", "gates", "mobile")}
MODELS["scaled_weights"] = scaled_weights()


def different_sizes(count: int) -> list[Sizes]:
    """Sizes whose batch and height, alone, are different too."""
    return [(1 + i % 4, 8 + i // 4, 9 + i % 3) for i in range(count)]  # n, h (or t), w


def in_use() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def grown(session: Session, model: onnx.ModelProto, sizes: Sequence[Sizes]) -> tuple[int, int, int]:
    """Runs at the first sizes, at all others, and at the first again: bytes of Python and numpy, objects, and resident
    bytes that there are more than after the first time."""

    def run(some: Sequence[Sizes]) -> tuple[int, int, int]:
        for each in some:
            session.run(feeds_of(model, shapes_of(model, each)))
        return in_use(), len(gc.get_objects()), resident()

    tracemalloc.start()
    try:
        then = run(sizes[:_SETTLED])
        run(sizes[_SETTLED:])
        now = run(sizes[:_SETTLED])
        return now[0] - then[0], now[1] - then[1], now[2] - then[2]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_memory_does_not_grow_with_shapes(model: onnx.ModelProto) -> None:
    session = Session(tune(model, shapes=shapes_of(model, (2, 9, 10)), threads=1, effort=0))
    bytes_more, objects_more, _ = grown(session, model, different_sizes(60))
    assert bytes_more < 64 << 10 and objects_more < 100


def test_memory_does_not_grow_with_sizes_that_the_data_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MOST_SPECIALISATIONS", 8)
    monkeypatch.setattr(bodies, "_MOST_RECORDS", 8)
    model = picked_rows()
    session = Session(tune(model, shapes={"x0": (9, 6)}, threads=1, effort=0))
    bytes_more, objects_more, _ = grown(session, model, different_sizes(60))
    assert bytes_more < 64 << 10 and objects_more < 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyramid_linear"])
def test_memory_after_a_thousand_shapes(name: str) -> None:
    model = MODELS[name]
    session = Session(tune(model, shapes=shapes_of(model, (2, 9, 10)), threads=1, effort=0))
    bytes_more, objects_more, resident_more = grown(session, model, different_sizes(1000))
    assert bytes_more < 64 << 10 and objects_more < 100 and resident_more < 32 << 20


def test_weights_made_of_the_shape_are_packed_for_each_shape() -> None:
    model = scaled_weights()
    session, graph = Session(tune(model, shapes=shapes_of(model, (1, 4, 4)), threads=1, effort=0)), import_model(model)
    for sizes in ((1, 4, 4), (1, 5, 4), (2, 7, 4), (1, 4, 4)):
        feeds = feeds_of(model, shapes_of(model, sizes))
        (found,), (expected,) = session.run(feeds).values(), reference.run(graph, feeds).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_weights_are_packed_once_for_all_shapes() -> None:
    model = MODELS["mobile"]
    session = Session(tune(model, shapes=shapes_of(model, (2, 9, 10)), threads=1, effort=0))
    seen: dict[str, list[Array]] = {}
    for sizes in different_sizes(12):
        program = session.linked(shapes_of(model, sizes)).program
        for packing in program.packings:
            arrays = [array for index in packing.buffers if (array := program.buffers[index].array) is not None]
            first = seen.setdefault(packing.name, arrays)
            assert len(arrays) == len(packing.buffers)
            assert all(a is b for a, b in zip(first, arrays, strict=True)), packing.name
    assert len(seen) > 4
