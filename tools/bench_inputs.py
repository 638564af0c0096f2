"""What a benchmark feeds its engines: shapes of models with free dimensions, arrays, tuned plans, resized models."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import softneuro
from tools.fetch_models import model_path

Shapes = Mapping[str, Sequence[int]]
SHAPES: Mapping[str, Shapes] = {
    "efficientnet_lite0": {"input": (1, 3, 224, 224)},
    "open-nsfw": {"input:0": (1, 224, 224, 3)},
    "ppocr-det": {"x": (1, 3, 640, 640)},
    "ppocr-rec": {"x": (1, 3, 48, 320)},
    "ppocr-cls": {"x": (1, 3, 48, 192)},
    "centerface": {"input.1": (1, 3, 480, 640)},
    "basic-pitch": {"serving_default_input_2:0": (1, 43844, 1)},
    "magika": {"bytes": (1, 2048)},
    "minilm-l3": {"input_ids": (1, 128), "attention_mask": (1, 128)},
    "lac-encoder": {"token_ids": (1, 20), "length": (1,)},
}
"""Input sizes of the models that do not declare them, or declare others."""
_NUMPY = {"f32": "float32", "f16": "float16", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8",
          "i8": "int8", "bool": "bool"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One model at one number of threads: the file for each side, the feeds, and the multiply-adds of a run."""

    name: str
    threads: int
    plan: Path
    model: Path
    feeds: Path
    macs: int

    def file_for(self, engine: str) -> Path:
        return self.plan if engine == "softneuro" else self.model


def prepare(name: str, threads: int, folder: Path) -> Case:
    """Fetch the model and tune it unless the folder has its plan. Raises CalledProcessError when tuning fails."""
    folder.mkdir(parents=True, exist_ok=True)
    path = model_path(name)
    shapes = SHAPES.get(name, {})
    plan = folder / f"{name}-{threads}.plan"
    if not plan.exists():
        tune(path, plan, threads, shapes, folder / "profile.jsonl")
    session = softneuro.Session(plan, threads)
    feeds = feeds_of(session)
    np.savez(folder / f"{name}.npz", **feeds)  # type: ignore[arg-type]
    placed = session.linked({key: array.shape for key, array in feeds.items()}).program.placed
    macs = sum(item.problem.macs() for item in placed if item.problem is not None)
    return Case(name, threads, plan, resized(path, shapes, folder), folder / f"{name}.npz", macs)


def tune(model: Path, plan: Path, threads: int, shapes: Shapes, profile: Path) -> None:
    """Tune in a process of its own, so that the benchmark's stays small."""
    sizes = [f"--shape={key}={'x'.join(map(str, shape))}" for key, shape in shapes.items()]
    command = [sys.executable, "-m", "softneuro", "tune", str(model), "-o", str(plan), "--threads", str(threads),
               "--profile", str(profile), *sizes]  # fmt: skip
    print(f"tuning {plan.name}", file=sys.stderr)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).resolve().parent.parent)


def feeds_of(session: softneuro.Session, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats; ones for whole numbers, which are valid as tokens, masks and lengths; 16000 for a sample rate."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for info in session.inputs:
        shape, dtype = session.plan.provenance.shapes[info.name], np.dtype(_NUMPY[info.dtype])
        values = rng.standard_normal(shape) if dtype.kind == "f" else np.full(shape, 16000 if info.name == "sr" else 1)
        feeds[info.name] = np.asarray(values).astype(dtype)
    return feeds


def resized(path: Path, shapes: Shapes, folder: Path) -> Path:
    """The model itself, or a copy in the folder when it declares other input sizes than are wanted."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    differs = False
    for item in model.graph.input:
        for dim, size in zip(item.type.tensor_type.shape.dim, shapes.get(item.name, ()), strict=False):
            if dim.HasField("dim_value") and dim.dim_value != size:
                dim.dim_value, differs = size, True
    if not differs:
        return path
    del model.graph.value_info[:]
    for item in model.graph.output:
        item.type.tensor_type.ClearField("shape")
    onnx.save(model, folder / path.name)
    return folder / path.name
