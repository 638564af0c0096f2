"""Real models, tuned and held against onnxruntime: every output within 1e-4 of its largest value, top-5 equal.

Models with free dimensions run at three shapes with one plan; voice detectors carry their state over 20 calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import text_picture

import softneuro
from softneuro.compare import differences, onnxruntime_session
from softneuro.types import Array, DType, Shape
from tools.fetch_models import model_path

pytest.importorskip("onnxruntime")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TOLERANCE = 1e-4
MEASURING_SECONDS = 10.0

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
    plan = softneuro.tune(path, shapes=first, threads=2, time_limit=MEASURING_SECONDS)
    assert plan.provenance.optimal, "the selection was not proved optimal"
    plan.save(tmp_path / "model.plan")
    session = softneuro.Session(tmp_path / "model.plan")
    peer = onnxruntime_session(path, _feeds(name, session, first, 0), 2)
    for seed, shapes in enumerate(MODELS[name]):
        feeds = _feeds(name, session, shapes, seed)
        _assert_same(session.run(feeds), _run_peer(peer, feeds))


@pytest.mark.parametrize("name", VOICE)
def test_voice_detectors_carry_their_state(name: str, tmp_path: Path) -> None:
    path = model_path(name)
    peer = onnxruntime_session(path, {}, 1)
    state = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.float32)
             for i in peer.get_inputs() if i.name in ("state", "h", "c")}  # fmt: skip
    rate = {"sr": np.array(16000, np.int64)} if any(i.name == "sr" for i in peer.get_inputs()) else {}
    shapes = {"input": (1, 576)} | {n: a.shape for n, a in (state | rate).items()}
    plan = softneuro.tune(path, shapes=shapes, threads=1, time_limit=MEASURING_SECONDS)
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
