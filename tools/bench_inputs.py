"""What a benchmark of real models needs: shapes of those with free dimensions, arrays, tuned plans."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import softneuro
from softneuro.bench.batch import batch_of
from softneuro.bench.machine import peak_gflops
from softneuro.bench.turns import Case
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


def prepare(name: str, threads: int, folder: Path) -> Case:
    """Fetch the model and tune it unless the folder has its plan. Raises CalledProcessError when tuning fails."""
    folder.mkdir(parents=True, exist_ok=True)
    path = model_path(name)
    plan = folder / f"{name}-{threads}.plan"
    if not plan.exists():
        tune(path, plan, threads, SHAPES.get(name, {}), folder / "profile.jsonl")
    feeds = feeds_of(softneuro.Plan.load(plan))
    shapes = {key: array.shape for key, array in feeds.items()}
    return Case(name, plan, path, threads, batch_of(shapes), feeds, peak_gflops(threads))


def tune(model: Path, plan: Path, threads: int, shapes: Shapes, profile: Path) -> None:
    """Tune in a process of its own, so that the benchmark's stays small."""
    sizes = [f"--shape={key}={'x'.join(map(str, shape))}" for key, shape in shapes.items()]
    command = [sys.executable, "-m", "softneuro", "tune", str(model), "-o", str(plan), "--threads", str(threads),
               "--profile", str(profile), *sizes]  # fmt: skip
    print(f"tuning {plan.name}", file=sys.stderr)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).resolve().parent.parent)


def feeds_of(plan: softneuro.Plan, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats; ones for whole numbers, which are valid as tokens, masks and lengths; 16000 for a sample rate."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for name, info in plan.graph.inputs.items():
        shape, dtype = plan.provenance.shapes[name], info.dtype.numpy
        values = rng.standard_normal(shape) if dtype.kind == "f" else np.full(shape, 16000 if name == "sr" else 1)
        feeds[name] = np.asarray(values).astype(dtype)
    return feeds
