"""The engines that can be measured: ours and its peers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from softneuro.bench.ncnn_model import ncnn_model
from softneuro.bench.sized_model import sized_model
from softneuro.errors import NotInstalled
from softneuro.types import Array

__all__ = ["OURS", "PEERS", "Engine", "installed", "require"]

Feeds = Mapping[str, Array]


@dataclass(frozen=True)
class Engine:
    """How an engine is found and fed.

    adapter: the module that runs it (see `softneuro.bench.adapter`). packages: what must be installed. extra: the extra
    of this package that brings them. prepare: the file to load, made in a folder from the ONNX model for feeds of these
    shapes; raises EngineFailed. converted: the file is a translation of the model, which may be wrong: an engine
    whose outputs then differ is not measured.
    """

    name: str
    adapter: str
    packages: tuple[str, ...]
    extra: str
    prepare: Callable[[Path, Feeds, Path], Path]
    converted: bool = False


def _as_it_is(plan: Path, feeds: Feeds, folder: Path) -> Path:
    return plan


OURS = Engine("softneuro", "softneuro.bench.run_softneuro", (), "", _as_it_is)
PEERS: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("onnxruntime", "softneuro.bench.run_onnxruntime", ("onnxruntime",), "bench", sized_model),
        Engine("openvino", "softneuro.bench.run_openvino", ("openvino",), "bench", sized_model),
        Engine("ncnn", "softneuro.bench.run_ncnn", ("ncnn", "pnnx"), "ncnn", ncnn_model, converted=True),
    )
}
"""The engines that we compare with, by name."""


def installed(engine: Engine) -> bool:
    """Whether all that the engine needs is there."""
    return not _missing(engine)


def require(engines: Iterable[Engine]) -> None:
    """Raise NotInstalled, with the pip command, unless all are installed."""
    for engine in engines:
        missing = _missing(engine)
        if missing:
            raise NotInstalled(f"{engine.name}: package {missing[0]!r} is not installed, needed pip install "
                               f"'softneuro[{engine.extra}]'")


def _missing(engine: Engine) -> list[str]:
    return [name for name in engine.packages if importlib.util.find_spec(name) is None]
