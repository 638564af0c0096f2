"""Real models, tuned and held against onnxruntime: every output within 1e-4 of its largest value, top-5 equal.

Models with free dimensions run at three shapes with one plan; voice detectors carry their state over 20 calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from half_models import half_model, rounded_model
from pictures import text_picture

import softneuro
from softneuro.compare import differences, onnxruntime_session
from softneuro.types import Array, DType, Shape
from tools.fetch_models import model_path

pytest.importorskip("onnxruntime")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TOLERANCE = 1e-4

Shapes = Mapping[str, Shape]
PICTURE: Shapes = {}
MODELS: dict[str, Sequence[Shapes]] = {
    "efficientnet_lite0": [{"input": (n, 3, 224, 224)} for n in (1, 2, 3)],
    "open-nsfw": [{"input:0": (n, 224, 224, 3)} for n in (1, 2, 3)],
    "ppocr-det": [{"x": (1, 3, h, w)} for h, w in ((640, 640), (320, 480), (96, 64))],
    "ppocr-rec": [{"x": (n, 3, 48, w)} for n, w in ((1, 320), (2, 160), (1, 97))],
    "ppocr-cls": [{"x": (n, 3, 48, 192)} for n in (1, 2, 3)],
    "centerface": [{"input.1": (1, 3, 480, 640)}],
    "basic-pitch": [{"serving_default_input_2:0": (n, 43844, 1)} for n in (1, 2, 3)],
    "magika": [{"bytes": (n, 2048)} for n in (1, 2, 5)],
    "minilm-l3": [{"input_ids": (n, t), "attention_mask": (n, t)} for n, t in ((1, 128), (2, 16), (1, 7))],
    "lac-encoder": [{"token_ids": (n, t), "length": (n,)} for n, t in ((1, 20), (2, 9), (1, 1))],
    "vgg16": [PICTURE],
    "resnet50": [PICTURE],
    "mobilenet-v2": [PICTURE],
    "mobilenet-v3-large": [PICTURE],
    "light-alexnet": [PICTURE],
    "light-densenet121": [PICTURE],
    "light-inception-v1": [PICTURE],
    "light-inception-v2": [PICTURE],
    "light-resnet50": [PICTURE],
    "light-shufflenet": [PICTURE],
    "light-squeezenet": [PICTURE],
    "light-vgg19": [PICTURE],
    "light-zfnet512": [PICTURE],
}
SURFACES = [
    "surfaces-gradient-boosting-regressor",
    "surfaces-k-neighbors-classifier",
    "surfaces-k-neighbors-classifier-validity",
    "surfaces-k-neighbors-regressor",
]
QUANTISED: dict[str, Sequence[Shapes]] = {
    "bilstm-int8": [{"input_ids": (n, t)} for n, t in ((1, 20), (1, 7))],
    "rawi-int8": [{"input": (n, t)} for n, t in ((1, 20), (1, 9))],
    "efficientnet_lite0_qdq": [{"input": (1, 3, 224, 224)}],
    "efficientnet_lite0_qoperator": [{"input": (1, 3, 224, 224)}],
}
QUANTISED_TOLERANCE = 0.04  # of the largest output: two steps of 8 bits, as one value rounded otherwise moves some after it
HALVES: dict[str, Shapes] = {
    "mobilenet-v2": PICTURE,
    "ppocr-rec": {"x": (1, 3, 48, 320)},
    "minilm-l3": {"input_ids": (1, 64), "attention_mask": (1, 64)},
}
HALF_TOLERANCE = 1e-3  # of the largest output: inputs are exact, the output is rounded to 11 bits
VOICE = [
    "silero-vad-silero_vad",
    "silero-vad-silero_vad_16k_op15",
    "silero-vad-silero_vad_16k_sequence",
    "silero-vad-silero_vad_half",
    "silero-vad-silero_vad_op18_ifless",
    "silero-vad-silero_vad_openvino_16k",
]


def _run_peer(peer: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    names = [output.name for output in peer.get_outputs()]
    return dict(zip(names, peer.run(names, dict(feeds)), strict=True))


def _feeds(name: str, session: softneuro.Session, shapes: Shapes, seed: int) -> dict[str, Array]:
    """Pictures of text for OCR, other pictures and sound as normal noise, tokens and bytes as small whole numbers,
    lengths as long as the text."""
    if name.startswith("ppocr"):
        count, _, height, width = shapes["x"]
        return {"x": text_picture(count, height, width, 48 if height > 48 else height, seed)}
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for info in session.inputs:
        shape = shapes.get(info.name) or tuple(d if isinstance(d, int) else 1 for d in info.shape or ())
        dtype = DType(info.dtype).numpy
        if dtype.kind == "f":
            feeds[info.name] = rng.standard_normal(shape).astype(dtype)
        elif info.name == "attention_mask":
            feeds[info.name] = np.ones(shape, dtype)
        elif info.name == "length":
            feeds[info.name] = np.full(shape, shapes["token_ids"][1], dtype)
        else:
            feeds[info.name] = rng.integers(0, 200, shape).astype(dtype)
    return feeds


def _assert_same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    for difference in differences(found, expected):
        assert difference.within(TOLERANCE), difference


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(name: str, tmp_path: Path) -> None:
    try:
        path = model_path(name)
    except FileNotFoundError as absent:  # one model is in no package: whoever has its file tests it
        pytest.skip(str(absent))
    first = MODELS[name][0]
    plan = softneuro.tune(path, shapes=first, threads=2, effort=1)
    assert plan.provenance.optimal, "the selection was not proved optimal"
    plan.save(tmp_path / "model.plan")
    session = softneuro.Session(tmp_path / "model.plan")
    peer = onnxruntime_session(path, _feeds(name, session, first, 0), 2)
    for seed, shapes in enumerate(MODELS[name]):
        feeds = _feeds(name, session, shapes, seed)
        _assert_same(session.run(feeds), _run_peer(peer, feeds))


@pytest.mark.parametrize("name", SURFACES)
def test_small_models_of_tables(name: str, tmp_path: Path) -> None:
    path = model_path(name)
    softneuro.tune(path, shapes={"input": (5, 4)}, threads=1, effort=1).save(tmp_path / "model.plan")
    session, peer = softneuro.Session(tmp_path / "model.plan"), onnxruntime_session(path, {}, 1)
    for count in (5, 1, 40):
        feeds = {"input": np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)}
        _assert_same(session.run(feeds), _run_peer(peer, feeds))


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_models(name: str, tmp_path: Path) -> None:
    try:
        path = model_path(name)
    except FileNotFoundError as absent:
        pytest.skip(str(absent))
    softneuro.tune(path, shapes=QUANTISED[name][0], threads=2, effort=1).save(tmp_path / "model.plan")
    session, peer = softneuro.Session(tmp_path / "model.plan"), onnxruntime_session(path, {}, 1)
    for seed, shapes in enumerate(QUANTISED[name]):
        rng = np.random.default_rng(seed)
        ((source, shape),) = shapes.items()
        feeds = {source: rng.standard_normal(shape).astype(np.float32) if len(shape) > 2 else rng.integers(1, 50, shape)}
        found, expected = session.run(feeds), _run_peer(peer, feeds)
        for difference in differences(found, expected):
            assert difference.relative <= QUANTISED_TOLERANCE, difference
        for output, value in expected.items():
            assert np.mean(found[output].argmax(-1) == value.argmax(-1)) == 1.0


@pytest.mark.parametrize("name", HALVES)
def test_float16_twins(name: str, tmp_path: Path) -> None:
    """Inputs, outputs and weights in float16: nearer to float32 on the same weights than onnxruntime, which rounds more."""
    model = onnx.load(model_path(name))
    twin = half_model(model)
    session = softneuro.Session(softneuro.tune(twin, shapes=HALVES[name], threads=2, effort=1))
    feeds = _feeds(name, session, HALVES[name], 0)
    feeds = {info.name: feeds[info.name].astype(DType(info.dtype).numpy) for info in session.inputs}
    wide = {n: v.astype(np.float32) if v.dtype == np.float16 else v for n, v in feeds.items()}
    found, exact, other = session.run(feeds), _run_model(rounded_model(model), wide, tmp_path), _run_model(twin, feeds, tmp_path)
    for output, value in exact.items():
        assert found[output].dtype == other[output].dtype
        largest = np.abs(value).max()
        mine, theirs = (np.abs(side[output].astype(np.float32) - value).max() for side in (found, other))
        assert mine <= HALF_TOLERANCE * largest
        assert mine <= theirs + 2.0**-11 * largest


def _run_model(model: onnx.ModelProto, feeds: Mapping[str, Array], folder: Path) -> dict[str, Array]:
    onnx.save(model, folder / "model.onnx")
    return _run_peer(onnxruntime_session(folder / "model.onnx", feeds, 1), feeds)


@pytest.mark.parametrize("name", VOICE)
def test_voice_detectors_carry_their_state(name: str, tmp_path: Path) -> None:
    path = model_path(name)
    peer = onnxruntime_session(path, {}, 1)
    state = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.float32)
             for i in peer.get_inputs() if i.name in ("state", "h", "c")}  # fmt: skip
    rate = {"sr": np.array(16000, np.int64)} if any(i.name == "sr" for i in peer.get_inputs()) else {}
    shapes = {"input": (1, 576)} | {n: a.shape for n, a in (state | rate).items()}
    plan = softneuro.tune(path, shapes=shapes, threads=1, effort=1)
    assert plan.provenance.optimal, "the selection was not proved optimal"
    plan.save(tmp_path / "model.plan")
    session = softneuro.Session(tmp_path / "model.plan")
    rng = np.random.default_rng(0)
    following = {"stateN": "state", "hn": "h", "cn": "c"}
    theirs = dict(state)
    for _ in range(20):
        sound = {"input": (0.1 * rng.standard_normal((1, 576))).astype(np.float32), **rate}
        mine, other = session.run(sound | state), _run_peer(peer, sound | theirs)
        _assert_same(mine, other)
        state = {following[n]: a for n, a in mine.items() if n in following}
        theirs = {following[n]: a for n, a in other.items() if n in following}
