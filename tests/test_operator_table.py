"""docs/operators.md has every operator, names only what exists, and says what the lists of the conformance tests say."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

from softneuro.importer.table import CONVERTERS
from softneuro.routines.table import ROUTINES
from tests.conformance_cases import RANDOM, UNSUPPORTED, node_cases
from tests.onnx_build import one_node
from tests.pages import ROOT, text_of
from tools.make_operator_table import Example, Seen, look, row

PAGE = text_of(ROOT / "docs" / "operators.md")
AGAIN = "run python tools/make_operator_table.py"
CELLS = 6


def rows(domain: str) -> dict[str, list[str]]:
    """Operator to cells of the table of a domain."""
    section = re.search(rf"^## {re.escape(domain or 'ai.onnx')}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line.strip("| ").split(" | ") for line in section[1].splitlines() if line.startswith("| `")] if section else []
    return {cells[0].strip("`"): cells for cells in lines}


@pytest.mark.parametrize("domain", sorted({domain for domain, _ in CONVERTERS}))
def test_every_operator_of_the_importer_is_there(domain: str) -> None:
    missing = {op_type for of, op_type in CONVERTERS if of == domain} - set(rows(domain))
    assert missing == set(), AGAIN


def test_every_operator_with_a_test_of_its_own_is_there() -> None:
    tested = {case.model.graph.node[0].op_type for case in node_cases().values() if len(case.model.graph.node) == 1}
    known = set().union(*(rows(domain) for domain in re.findall(r"^## (.*)$", PAGE, re.MULTILINE)))
    assert tested - known == set(), AGAIN


def test_rows_are_whole_and_name_routines_that_exist() -> None:
    known = {".".join(routine.name.split(".")[:2]) for routines in ROUTINES.values() for routine in routines}
    for domain in re.findall(r"^## (.*)$", PAGE, re.MULTILINE):
        for op_type, cells in rows(domain).items():
            assert len(cells) == CELLS, op_type
            assert set(re.findall(r"`([a-z0-9_.]+)`", cells[-1])) <= known, (op_type, AGAIN)


def test_the_numbers_of_tests_are_those_of_the_lists() -> None:
    nodes = node_cases()
    assert f"the {len(nodes):,} node tests" in PAGE, AGAIN
    assert f"{len(set(nodes) - set(RANDOM) - set(UNSUPPORTED)):,} pass with all their numbers" in PAGE, AGAIN
    assert all(f"`{name}`" in PAGE for name in UNSUPPORTED), AGAIN


def example(op_type: str, *arrays: np.ndarray, **attributes: object) -> Example:
    feeds = {f"x{index}": array for index, array in enumerate(arrays)}
    return Example(one_node(op_type, feeds, **attributes), feeds)


F32 = np.ones((2, 3), np.float32)
FIXED = "on the host where its weights, axes or sizes are no constants"
ROWS = {
    "native": (example("Relu", F32), "| `Relu` | 1 | 14 | f32 | - | `pointwise.fused` |"),
    "constants_keep_it_native": (example("Expand", F32, np.array([2, 2, 3])),
        f"| `Expand` | 8 | 13 | f32 | - | `broadcast_to.strided`; {FIXED} |"),
    "no_work": (example("Flatten", F32), "| `Flatten` | 1 | 13 | - | - | needs no work in a run |"),
    "on_the_host": (example("Det", np.eye(3, dtype=np.float32)),
        "| `Det` | 11 | 11 | - | f32 | host: onnx's reference implementation |"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_row_says_what_ran(name: str) -> None:
    given, line = ROWS[name]
    seen = Seen()
    look(seen, given)
    assert row(("", given.node.op_type), seen) == line


def test_operator_without_an_example_says_so() -> None:
    assert row(("", "Relu"), Seen()) == "| `Relu` | 1 | - | - | - | no example |"


def test_elements_are_named() -> None:
    float8 = onnx.TensorProto.FLOAT8E4M3FN
    feeds = {"x0": F32}
    model = one_node("Identity", feeds)
    model.graph.input[0].type.tensor_type.elem_type = float8
    assert Example(model, feeds).element == "float8_e4m3fn"
    assert example("Relu", F32).element == "f32"
