"""The structure holds: imports go one way, heavy packages load where they may, the tables list everything."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import softneuro
from softneuro.ops.base import Op
from softneuro.routines.routine import Routine
from softneuro.routines.table import ROUTINES

ROOT = Path(softneuro.__file__).parent
LEAVES = {"errors", "types", "memory", "cpu", "limits", "_version", "quantisation"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_version": set(),
    "types": set(),
    "memory": {"types"},
    "quantisation": {"types"},
    "limits": {"errors", "types"},
    "cpu": set(),
    "feeds": {"types"},
    "user_code": {"errors"},
    "ops": LEAVES,
    "problem": LEAVES | {"ops"},
    "graph": LEAVES | {"ops"},
    "reference": LEAVES | {"ops", "graph"},
    "control": LEAVES | {"ops", "graph", "reference", "specialise"},
    "control_inputs": LEAVES | {"ops", "graph", "control", "specialise"},
    "stages": LEAVES | {"ops", "graph", "control"},
    "inline": LEAVES | {"ops", "graph"},
    "specialise": LEAVES | {"ops", "graph", "inline"},
    "importer": LEAVES | {"ops", "graph", "control"},
    "passes": LEAVES | {"ops", "graph", "reference", "inline", "specialise", "control"},
    "codegen": LEAVES | {"ops"},
    "routines": LEAVES | {"ops", "problem", "codegen"},
    "plan": LEAVES | {"ops", "problem", "graph", "codegen", "routines", "control"},
    "runtime": LEAVES
    | {"ops", "problem", "graph", "reference", "control", "control_inputs", "specialise", "stages", "codegen", "routines"}
    | {"plan"},
    "calibration": LEAVES
    | {"ops", "graph", "specialise", "codegen", "plan", "runtime", "array_files", "pictures", "user_code"},
    "tuning": LEAVES
    | {"ops", "control", "problem", "graph", "specialise", "stages", "codegen", "routines", "plan", "runtime", "importer"}
    | {"passes", "control_inputs", "feeds", "calibration"},
    "compare": LEAVES | {"ops", "graph", "reference", "importer", "plan", "runtime"},
    "array_files": {"errors", "types"},
    "pictures": {"errors", "types"},
    "demo": {"types"},
    "report": LEAVES
    | {"ops", "control", "problem", "graph", "specialise", "stages", "codegen", "routines", "plan", "runtime", "tuning"}
    | {"control_inputs", "importer", "passes"},
    "bench": LEAVES | {"codegen", "plan", "runtime", "tuning", "compare"},
    "doctor": LEAVES
    | {"ops", "graph", "reference", "specialise", "codegen", "routines", "plan", "runtime", "tuning"},
    "cli": LEAVES
    | {"graph", "problem", "plan", "runtime", "tuning", "compare", "demo", "report", "bench", "doctor"}
    | {"array_files", "calibration", "control_inputs", "feeds", "pictures", "user_code"},
    "__init__": LEAVES | {"plan", "runtime", "tuning", "calibration"},
    "__main__": {"cli"},
}
"""What each part of the package may import: the map of docs/ARCHITECTURE.md."""

HEAVY = {
    "numba": {"codegen"},
    "llvmlite": {"codegen", "doctor"},
    "onnx": {"importer", "ops/onnx_op.py", "compare", "bench"},
    "networkx": {"importer"},
    "rich": {"cli"},
    "argcomplete": {"cli/completion.py"},
    "matplotlib": {"report/plot.py", "report/frontier_plot.py"},
    "PIL": {"pictures.py"},
    "onnxruntime": {"compare", "bench"},
    "openvino": {"bench"},
    "ncnn": {"bench"},
}


def _sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _part(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def _imports(path: Path) -> list[str]:
    """Names that a file imports when it runs; imports for type checkers alone do not count."""
    names = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for block in ast.walk(tree):
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            block.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "softneuro" else [node.module]
    return names


@pytest.mark.parametrize("path", _sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    part = _part(path)
    allowed = MAY_IMPORT[part] | {part}
    for name in _imports(path):
        if name.startswith("softneuro."):
            assert name.split(".")[1] in allowed, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("path", _sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_packages_are_imported_where_they_may_be(path: Path) -> None:
    relative = path.relative_to(ROOT)
    for name in _imports(path):
        allowed = HEAVY.get(name.split(".")[0])
        if allowed is not None:
            assert {relative.parts[0], relative.as_posix()} & allowed, f"{relative} imports {name}"


@pytest.mark.parametrize("path", _sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 420


def test_every_routine_is_in_the_table() -> None:
    listed = {routine.name for routines in ROUTINES.values() for routine in routines}
    package = importlib.import_module("softneuro.routines")
    found = set()
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"softneuro.routines.{info.name}")
        found |= {value.name for value in vars(module).values() if isinstance(value, Routine)}
    assert found == listed


def test_routines_are_listed_under_their_op_with_a_unique_name() -> None:
    names = [routine.name for routines in ROUTINES.values() for routine in routines]
    assert len(names) == len(set(names))
    for op, routines in ROUTINES.items():
        for routine in routines:
            assert routine.op is op
            assert routine.name.startswith(f"{op.name}.")


def test_every_op_class_is_in_a_table() -> None:
    from softneuro.control import CONTROL_OPS
    from softneuro.ops.table import OPS

    package = importlib.import_module("softneuro.ops")
    found = set()
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"softneuro.ops.{info.name}")
        found |= {v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Op) and v.name}
    assert found == set(OPS.values())
    assert not set(OPS) & set(CONTROL_OPS)


@pytest.mark.parametrize("statement", ["import softneuro", "import softneuro.runtime", "import softneuro; softneuro.Session"])
def test_runtime_loads_neither_onnx_nor_numba(statement: str) -> None:
    check = f"{statement}; import sys; print([m for m in ('onnx', 'numba', 'rich', 'networkx') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_public_names_are_all_there() -> None:
    for name in softneuro.__all__:
        assert getattr(softneuro, name) is not None
