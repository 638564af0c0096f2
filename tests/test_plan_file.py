"""Plan files: what is saved is what is loaded, and nothing else is accepted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import conv_chain, feeds_for, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from softneuro.errors import PlanError, ResourceLimitError
from softneuro.plan.file import load_plan, save_plan
from softneuro.plan.plan import Choice, Plan, Provenance
from softneuro.routines.routine import Signature
from softneuro.runtime import Session


def _plan() -> Plan:
    graph = conv_chain(height="h")
    choice = Choice("conv.igemm.f32.chl", Signature.parse("f32:chl,->f32:chl"), {"mr": 6, "nv": 1})
    made = Provenance(model_sha256="ab", machine="here", threads=2, shapes={"t0": (1, 8, 6, 5)}, predicted_ns=1.5, optimal=True)
    return Plan(graph, {"conv0": choice}, made)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("plan") / "a.plan"
    save_plan(_plan(), path)
    return path.read_bytes()


def test_round_trip(tmp_path: Path) -> None:
    plan = _plan()
    plan.save(tmp_path / "a.plan")
    back = Plan.load(tmp_path / "a.plan")
    assert back.choices == plan.choices
    assert back.provenance == plan.provenance
    assert back.graph.inputs == plan.graph.inputs
    assert back.graph.layers == plan.graph.layers
    for name, array in plan.graph.constants.items():
        np.testing.assert_array_equal(back.graph.constants[name], array)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.plan"]


def _with_provenance(saved: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file with another record of its origin."""
    size = int.from_bytes(saved[24:32], "little")
    header = json.loads(saved[64 : 64 + size])
    change(header["provenance"])
    text = json.dumps(header).encode()
    rest = text + b" " * (-len(text) % 64) + saved[64 + size :]
    return saved[:24] + (len(rest) - len(saved) + 64 + size).to_bytes(8, "little") + hashlib.sha256(rest).digest() + rest


def test_a_plan_from_before_there_were_values(tmp_path: Path, saved: bytes) -> None:
    def older(made: dict[str, Any]) -> None:
        del made["values"], made["further_values"]

    (tmp_path / "a.plan").write_bytes(_with_provenance(saved, older))
    assert load_plan(tmp_path / "a.plan").provenance == _plan().provenance


@pytest.mark.parametrize("values", [{"t0": 1}, {"other": 1}, {"t0": "a"}, [1]])
def test_values_of_no_input_that_takes_them(tmp_path: Path, saved: bytes, values: object) -> None:
    (tmp_path / "a.plan").write_bytes(_with_provenance(saved, lambda made: made.update(values=values)))
    with pytest.raises(PlanError):
        load_plan(tmp_path / "a.plan")


def test_loaded_plan_runs(tmp_path: Path) -> None:
    graph = conv_chain()
    plan_of(graph).save(tmp_path / "a.plan")
    feeds = feeds_for(graph)
    np.testing.assert_array_equal(Session(tmp_path / "a.plan").run(feeds)["t3"], Session(plan_of(graph)).run(feeds)["t3"])


def test_saving_is_deterministic(tmp_path: Path, saved: bytes) -> None:
    save_plan(_plan(), tmp_path / "b.plan")
    assert (tmp_path / "b.plan").read_bytes() == saved


@pytest.mark.parametrize(("change", "message"), [
    (lambda b: b"", "found 0 bytes, needed a softneuro plan file"),
    (lambda b: b[:40], "found 40 bytes, needed a softneuro plan file"),
    (lambda b: b[:-1], "is damaged: its contents do not match its digest"),
    (lambda b: b[:100], "is truncated"),
    (lambda b: b"x" + b[1:], "is not a softneuro plan file"),
    (lambda b: b[:16] + b"\x63\0\0\0" + b[20:], "found format version 99, needed 1"),
    (lambda b: b"PK\x03\x04" * 100, "is not a softneuro plan file"),
])  # fmt: skip
def test_damage_is_one_sentence(tmp_path: Path, saved: bytes, change, message: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "a.plan"
    path.write_bytes(change(saved))
    with pytest.raises(PlanError, match=message) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        load_plan(tmp_path / "absent.plan")
    with pytest.raises(PlanError, match="cannot be read: Is a directory"):
        load_plan(tmp_path)
    with pytest.raises(PlanError, match="cannot be written"):
        save_plan(_plan(), tmp_path / "absent" / "a.plan")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_is_noticed(saved: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(saved) - 1))
    if 20 <= position < 24:  # reserved
        return
    changed = bytearray(saved)
    changed[position] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "flipped.plan"
    path.write_bytes(bytes(changed))
    with pytest.raises((PlanError, ResourceLimitError)):  # a header of many gigabytes
        load_plan(path)
