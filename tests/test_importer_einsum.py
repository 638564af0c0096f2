"""Einsum becomes layers that have native routines, with the values of numpy.einsum."""

from __future__ import annotations

import numpy as np
import pytest

from softneuro import reference
from softneuro.errors import ModelError
from softneuro.importer.model import import_model
from softneuro.ops.onnx_op import OnnxOp
from tests.onnx_build import one_node

EQUATIONS = {
    "matrix_product": ("ij,jk->ik", (3, 4), (4, 5)),
    "attention_scores": ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    "attention_values": ("bhqk,bkhd->bqhd", (2, 4, 3, 6), (2, 6, 4, 5)),
    "several_rows": ("abcd,de->abce", (2, 3, 4, 5), (5, 6)),
    "several_contracted": ("abcd,cde->abe", (2, 3, 4, 5), (4, 5, 6)),
    "vector_times_matrix": ("j,jk->k", (4,), (4, 5)),
    "inner_product": ("i,i->", (7,), (7,)),
    "inner_product_implicit": ("i,i", (7,), (7,)),
    "outer_product": ("i,j->ij", (3,), (4,)),
    "outer_product_turned": ("i,j->ji", (3,), (4,)),
    "elements": ("ij,ij->ij", (3, 4), (3, 4)),
    "rows_scaled": ("ij,i->ij", (3, 4), (3,)),
    "columns_scaled": ("j,ij->ij", (4,), (3, 4)),
    "transpose": ("ij->ji", (3, 4)),
    "sum_of_rows": ("ij->i", (3, 4)),
    "sum_of_all": ("ij->", (3, 4)),
    "as_it_is": ("ij->ij", (3, 4)),
    "implicit_order": ("ba", (3, 4)),
    "label_of_one_operand_is_summed": ("ijz,jk->ik", (3, 4, 2), (4, 5)),
    "three_operands": ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    "label_in_all_three": ("bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5)),
    "ellipsis": ("...ij,...jk->...ik", (2, 3, 4, 5), (2, 3, 5, 6)),
    "ellipsis_of_different_ranks": ("...ij,...jk->...ik", (3, 4, 5), (2, 3, 5, 6)),
    "ellipsis_that_broadcasts": ("...ij,...jk->...ik", (2, 1, 4, 5), (1, 3, 5, 6)),
    "ellipsis_at_the_end": ("ij...->ji...", (2, 3, 4, 5)),
    "ellipsis_implicit": ("...ij,...jk", (2, 3, 4), (2, 4, 5)),
    "ellipsis_of_one_operand": ("...i,ij->...j", (2, 3, 4), (4, 5)),
    "spaces_and_capitals": (" iA , Ak -> ik ", (3, 4), (4, 5)),
    "scalar_operand": (",ij->ij", (), (3, 4)),
    "empty_contraction": ("ij,jk->ik", (3, 0), (0, 5)),
}


@pytest.mark.parametrize("case", EQUATIONS.values(), ids=EQUATIONS)
def test_equals_numpy(case: tuple) -> None:
    equation, *shapes = case
    rng = np.random.default_rng(4)
    feeds = {f"x{i}": rng.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)}
    graph = import_model(one_node("Einsum", feeds, equation=equation))
    assert not any(isinstance(layer.op, OnnxOp) for layer in graph.layers)
    (got,) = reference.run(graph, feeds).values()
    want = np.einsum(equation.replace(" ", ""), *feeds.values())
    assert got.shape == want.shape and got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_diagonals_are_left_to_the_reference() -> None:
    feeds = {"x": np.arange(9, dtype=np.float32).reshape(3, 3)}
    graph = import_model(one_node("Einsum", feeds, equation="ii->i"))
    assert isinstance(graph.layers[0].op, OnnxOp)
    np.testing.assert_array_equal(next(iter(reference.run(graph, feeds).values())), [0, 4, 8])


@pytest.mark.parametrize(("equation", "reason"), [
    ("ij,jk->ik", "has 2 terms, needed one for each of 1 inputs"),
    ("ijk->i", "input 0 has 2 axes, needed as many as term 'ijk' has labels"),
    ("ij->iz", "its result is 'iz', needed labels of the terms, each at most once"),
    ("ij->ii", "its result is 'ii', needed labels of the terms, each at most once"),
])  # fmt: skip
def test_equations_that_do_not_fit(equation: str, reason: str) -> None:
    with pytest.raises(ModelError, match="needed"):
        try:
            import_model(one_node("Einsum", {"x": np.zeros((2, 3), np.float32)}, equation=equation))
        except ModelError as error:
            assert reason in str(error)
            raise
