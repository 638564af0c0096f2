"""onnx's backend tests by the way a user's model goes: tuned, the plan saved and loaded, run in a session."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

import softneuro
from softneuro.errors import UnsupportedOp
from tests.conformance_cases import KINDS, RANDOM, UNSUPPORTED, Case, assert_same, assert_same_type, cases_of, node_cases

LEAST_NODE_TESTS = 1860
"""Node tests that must pass with all their numbers."""

MODELS = [(kind, name) for kind in KINDS for name in cases_of(kind)]


def run_case(case: Case, folder: Path) -> list[tuple[dict[str, Any], list[Any]]]:
    """What a session gives for every data set, as outputs by name with what is wanted. One thread or two, by the name."""
    plan = softneuro.tune(case.model, threads=1 + zlib.crc32(case.name.encode()) % 2, effort=0)
    plan.save(folder / "model.plan")
    session = softneuro.Session(folder / "model.plan")
    return [(session.run(data.feeds), list(data.outputs)) for data in case.data_sets]


def check(case: Case, folder: Path) -> None:
    if case.name in UNSUPPORTED:
        with pytest.raises(UnsupportedOp, match="found no layer class and no reference implementation"):
            run_case(case, folder)
        return
    ran = run_case(case, folder)
    assert ran
    for found, wanted in ran:
        assert list(found) == case.output_names
        for got, want in zip(found.values(), wanted, strict=True):
            if case.name in RANDOM:
                assert_same_type(got, want)
            else:
                assert_same(got, want, case.rtol, case.atol)


@pytest.mark.parametrize("name", node_cases())
@pytest.mark.filterwarnings("ignore")
def test_node(name: str, tmp_path: Path) -> None:
    if name.startswith("test_image_decoder"):
        pytest.importorskip("PIL")
    check(node_cases()[name], tmp_path)


@pytest.mark.parametrize(("kind", "name"), MODELS, ids=[f"{kind}-{name}" for kind, name in MODELS])
@pytest.mark.filterwarnings("ignore")
def test_model(kind: str, name: str, tmp_path: Path) -> None:
    check(cases_of(kind)[name], tmp_path)


def test_lists_name_tests_that_exist() -> None:
    assert set(RANDOM) | set(UNSUPPORTED) <= set(node_cases()) | {name for _, name in MODELS}


def test_few_tests_are_listed() -> None:
    assert len(set(node_cases()) - set(RANDOM) - set(UNSUPPORTED)) >= LEAST_NODE_TESTS
    assert len(MODELS) - len(UNSUPPORTED) >= 138
