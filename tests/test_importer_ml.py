"""Operators of ai.onnx.ml held against onnxruntime: trees, linear models, support vectors, labels, small transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import softneuro
from softneuro import reference
from softneuro.errors import InputError, ModelError
from softneuro.importer.model import import_model
from softneuro.ops.base import Op
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.softmax import Softmax
from softneuro.plan.program import HostStep
from softneuro.specialise import specialise
from softneuro.types import Array

F, I64 = np.float32, np.int64
ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
X = np.random.default_rng(0).standard_normal((6, 4)).astype(F)
WITH_NAN = np.where(np.arange(24).reshape(6, 4) % 7 == 2, np.nan, X).astype(F)
LABELS = {"strings": ["a", "b", "c"], "int64s": [7, 3, 5]}


def node_model(op_type: str, feeds: dict[str, Array], outputs: int, version: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(outputs)]
    inputs = []
    for name, value in feeds.items():
        strings = value.dtype.kind == "O"
        element = onnx.TensorProto.STRING if strings else helper.np_dtype_to_tensor_dtype(value.dtype)
        inputs.append(helper.make_tensor_value_info(name, element, value.shape))
    node = helper.make_node(op_type, list(feeds), names, domain=ML, name="the_node", **attributes)
    graph = helper.make_graph([node], "test", inputs, [onnx.ValueInfoProto(name=name) for name in names])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def expected(proto: onnx.ModelProto, feeds: dict[str, Array]) -> list[Any]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return list(ort.InferenceSession(proto.SerializeToString(), options).run(None, feeds))


def check(op_type: str, feeds: dict[str, Array], outputs: int = 1, version: int = 3, **attributes: Any) -> None:
    """The graph, and the graph for these shapes, give onnxruntime's outputs."""
    proto = node_model(op_type, feeds, outputs, version, **attributes)
    graph, wanted = import_model(proto), expected(proto, feeds)
    for form in (graph, specialise(graph, {name: value.shape for name, value in feeds.items()})):
        found = reference.run(form, {name: feeds[name] for name in form.inputs})
        for name, want in zip(form.outputs, wanted, strict=True):
            value = found[name]
            if isinstance(want, list):
                assert [list(row) for row in value] == [list(row) for row in want]
                np.testing.assert_allclose([list(r.values()) for r in value], [list(r.values()) for r in want], rtol=1e-6)
            elif want.dtype.kind == "O":
                assert value.tolist() == want.tolist()
            else:
                assert (value.shape, value.dtype) == (want.shape, want.dtype)
                np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)


def trees(prefix: str, targets: int, modes: tuple[str, ...] = MODES[:1], *, missing: bool = False, seed: int = 1,
          low: float = 0.0, count: int = 3, depth: int = 3) -> dict[str, list[Any]]:
    """Whole random trees; every leaf has a weight from ``low`` to 1 for every target."""
    rng = np.random.default_rng(seed)
    size, first_leaf = 2 ** (depth + 1) - 1, 2**depth - 1
    keys = [(tree, number, number >= first_leaf) for tree in range(count) for number in range(size)]
    leaves = [(tree, number, target) for tree, number, leaf in keys if leaf for target in range(targets)]
    return {
        "nodes_treeids": [tree for tree, _, _ in keys],
        "nodes_nodeids": [number for _, number, _ in keys],
        "nodes_featureids": [0 if leaf else int(rng.integers(0, 4)) for *_, leaf in keys],
        "nodes_values": [0.0 if leaf else float(F(rng.standard_normal())) for *_, leaf in keys],
        "nodes_modes": ["LEAF" if leaf else str(rng.choice(modes)) for *_, leaf in keys],
        "nodes_truenodeids": [0 if leaf else 2 * number + 1 for _, number, leaf in keys],
        "nodes_falsenodeids": [0 if leaf else 2 * number + 2 for _, number, leaf in keys],
        "nodes_missing_value_tracks_true": [int(missing and number % 2) for _, number, _ in keys],
        f"{prefix}_treeids": [tree for tree, _, _ in leaves],
        f"{prefix}_nodeids": [number for _, number, _ in leaves],
        f"{prefix}_ids": [target for _, _, target in leaves],
        f"{prefix}_weights": [float(F(rng.uniform(low, 1))) for _ in leaves],
    }


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(aggregate: str, transform: str) -> None:
    check("TreeEnsembleRegressor", {"x": X}, n_targets=2, aggregate_function=aggregate, post_transform=transform,
          base_values=[0.1, -0.3], **trees("target", 2, low=-1.0))


@pytest.mark.parametrize("transform", [*TRANSFORMS, "PROBIT"])
def test_tree_regressor_of_one_target(transform: str) -> None:
    attributes = trees("target", 1)
    attributes["target_weights"] = [0.2 * weight for weight in attributes["target_weights"]]
    check("TreeEnsembleRegressor", {"x": X}, n_targets=1, post_transform=transform, **attributes)


@pytest.mark.parametrize("x", [X, WITH_NAN, X.astype(np.float64)], ids=["f32", "nan", "f64"])
def test_all_comparisons(x: Array) -> None:
    check("TreeEnsembleRegressor", {"x": x}, n_targets=2, **trees("target", 2, MODES, missing=True))


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_tree_classifier(transform: str, labels: str) -> None:
    check("TreeEnsembleClassifier", {"x": X}, 2, post_transform=transform, **trees("class", 3),
          **{f"classlabels_{labels}": LABELS[labels]})


@pytest.mark.parametrize("named", [0, 1])
@pytest.mark.parametrize("low", [0.0, -1.0], ids=["positive", "mixed"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_tree_classifier_that_scores_one_of_two_classes(transform: str, low: float, named: int) -> None:
    attributes = trees("class", 1, low=low)
    attributes["class_ids"] = [named] * len(attributes["class_ids"])
    check("TreeEnsembleClassifier", {"x": X}, 2, post_transform=transform, classlabels_int64s=[4, 9], **attributes)


def test_two_scored_classes_give_the_label_of_the_larger() -> None:
    """onnxruntime gives label 1 here, whether there is one or not; ONNX and its reference the class of most weight."""
    proto = node_model("TreeEnsembleClassifier", {"x": X}, 2, 3, classlabels_int64s=[7, 3], **trees("class", 2))
    found = reference.run(import_model(proto), {"x": X})
    np.testing.assert_allclose(found["y1"], expected(proto, {"x": X})[1], rtol=1e-5)
    np.testing.assert_array_equal(found["y0"], np.array([7, 3])[found["y1"].argmax(axis=1)])


def _version_five(**attributes: Any) -> dict[str, Any]:
    array = onnx.numpy_helper.from_array
    return {
        "n_targets": 2, "tree_roots": [0], "nodes_featureids": [0, 1, 2], "nodes_splits": array(np.array([0.1, -0.2, 0.3], F)),
        "nodes_modes": array(np.array([0, 1, 4], np.uint8)), "nodes_truenodeids": [1, 0, 1], "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 2, 0], "nodes_falseleafs": [0, 1, 1], "leaf_targetids": [0, 1, 0],
        "leaf_weights": array(np.array([5.0, -2.0, 1.5], F)), **attributes,
    }  # fmt: skip


@pytest.mark.parametrize("transform", [0, 3])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_tree_ensemble(aggregate: int, transform: int) -> None:
    check("TreeEnsemble", {"x": X}, 1, 5, **_version_five(aggregate_function=aggregate, post_transform=transform))


@pytest.mark.parametrize(("number", "op"), [(1, Softmax(-1)), (2, Pointwise("sigmoid(x0)"))])
def test_tree_ensemble_transforms_are_numbered_as_onnx_does(number: int, op: Op) -> None:
    """onnxruntime takes 1 for logistic and 2 for softmax."""
    proto = node_model("TreeEnsemble", {"x": X}, 1, 5, **_version_five(post_transform=number))
    assert [layer.op for layer in import_model(proto).layers][-1] == op


def test_tree_ensemble_with_sets() -> None:
    array = onnx.numpy_helper.from_array
    x = np.array([[1.0], [4.0], [2.0], [3.0], [8.0], [9.0], [1.5]], F)
    attributes = _version_five(
        nodes_featureids=[0, 0, 0], nodes_splits=array(np.array([2.5, 0.0, 0.0], F)),
        nodes_modes=array(np.array([0, 6, 6], np.uint8)), nodes_falseleafs=[0, 1, 1],
        membership_values=array(np.array([1, 2, np.nan, 8, 9, 3, np.nan], F)))  # fmt: skip
    check("TreeEnsemble", {"x": x}, 1, 5, **attributes)


def _loops(child: int) -> onnx.ModelProto:
    return node_model("TreeEnsemble", {"x": X}, 1, 5, **_version_five(nodes_truenodeids=[child, 0, 1]))


@pytest.mark.parametrize(("child", "found"), [(0, "a tree has a cycle"), (77, "a child with number 77")])
def test_trees_that_never_end_are_refused(child: int, found: str) -> None:
    with pytest.raises(ModelError, match=found):
        import_model(_loops(child))


COEFFICIENTS = [float(v) for v in np.random.default_rng(2).standard_normal(12).astype(F)]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models(transform: str) -> None:
    shared = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "post_transform": transform}
    check("LinearRegressor", {"x": X}, targets=3, **shared)
    check("LinearClassifier", {"x": X}, 2, classlabels_ints=[4, 5, 6], **shared)
    check("LinearClassifier", {"x": X}, 2, classlabels_strings=["a", "b", "c"], **shared)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("rows", [1, 2])
def test_linear_classifier_of_two_classes(rows: int, transform: str) -> None:
    check("LinearClassifier", {"x": X}, 2, coefficients=COEFFICIENTS[: 4 * rows], intercepts=[0.1, 0.2][:rows],
          classlabels_ints=[0, 1], post_transform=transform)


VECTORS = {"kernel_params": [0.5, 0.1, 2.0], "support_vectors": COEFFICIENTS}


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel: str) -> None:
    shared = {"kernel_type": kernel, "coefficients": [0.5, -0.3, 0.2], "rho": [0.2], **VECTORS}
    check("SVMRegressor", {"x": X}, n_supports=3, **shared)
    check("SVMRegressor", {"x": X}, n_supports=3, one_class=1, **shared)
    two = {"vectors_per_class": [2, 1], "classlabels_ints": [0, 1], **shared}
    check("SVMClassifier", {"x": X}, 2, **two)
    check("SVMClassifier", {"x": X}, 2, prob_a=[-1.1], prob_b=[0.2], **two)
    three = {**shared, "coefficients": [0.5, -0.3, 0.2, 0.4, 0.1, -0.7], "rho": [0.2, 0.1, -0.1]}
    check("SVMClassifier", {"x": X}, 2, vectors_per_class=[1, 1, 1], classlabels_ints=[0, 1, 2], **three)


STRINGS = np.array(["a", "c", "x"], object)
SMALL: dict[str, tuple[str, dict[str, Array], dict[str, Any]]] = {
    "scaler": ("Scaler", {"x": X}, {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 3.0, 4.0]}),
    "scaler_of_integers": ("Scaler", {"x": (9 * X).astype(I64)}, {"offset": [0.1], "scale": [3.0]}),
    "norm_max": ("Normalizer", {"x": X}, {"norm": "MAX"}),
    "norm_max_of_negative": ("Normalizer", {"x": -np.abs(X)}, {"norm": "MAX"}),
    "norm_l1": ("Normalizer", {"x": X}, {"norm": "L1"}),
    "norm_l2_of_zeros": ("Normalizer", {"x": X * F([[1], [0], [1], [0], [1], [1]])}, {"norm": "L2"}),
    "binarizer": ("Binarizer", {"x": X}, {"threshold": 0.3}),
    "imputer": ("Imputer", {"x": WITH_NAN}, {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")}),
    "imputer_of_integers": ("Imputer",
        {"x": np.array([[1, 2], [0, 3]])}, {"imputed_value_int64s": [9], "replaced_value_int64": 0}),
    "extractor": ("ArrayFeatureExtractor", {"x": X, "i": np.array([[2, 0]])}, {}),
    "vectorizer": ("FeatureVectorizer", {"a": X, "b": X[:, :2]}, {"inputdimensions": [4, 2]}),
    "labels_of_strings": ("LabelEncoder",
        {"x": STRINGS}, {"keys_strings": ["a", "b"], "values_int64s": [1, 2], "default_int64": -1}),
    "labels_of_integers": ("LabelEncoder",
        {"x": np.array([1, 5])}, {"keys_int64s": [1, 2], "values_strings": ["q", "r"], "default_string": "-"}),
    "labels_of_nan": ("LabelEncoder",
        {"x": F([1, np.nan, 8])}, {"keys_floats": [1.0, float("nan")], "values_floats": [5.0, 6.0], "default_float": -2.0}),
    "one_hot": ("OneHotEncoder", {"x": np.array([[1, 5], [2, 1]])}, {"cats_int64s": [1, 2, 5], "zeros": 1}),
    "one_hot_of_strings": ("OneHotEncoder", {"x": STRINGS}, {"cats_strings": ["a", "c"], "zeros": 1}),
    "categories": ("CategoryMapper", {"x": STRINGS}, {"cats_strings": ["a", "c"], "cats_int64s": [3, 4], "default_int64": -1}),
    "categories_back": ("CategoryMapper",
        {"x": np.array([3, 4, 9])}, {"cats_strings": ["a", "c"], "cats_int64s": [3, 4], "default_string": "no"}),
    "map_of_integers": ("ZipMap", {"x": X[:, :3]}, {"classlabels_int64s": [4, 5, 6]}),
    "map_of_strings": ("ZipMap", {"x": X[:, :3]}, {"classlabels_strings": ["a", "b", "c"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small_operators(name: str) -> None:
    op_type, feeds, attributes = SMALL[name]
    check(op_type, feeds, **attributes)


def on_host(proto: onnx.ModelProto) -> list[str]:
    """The ops that run on the host in a session, which gives what onnxruntime does."""
    session = softneuro.Session(softneuro.tune(proto, threads=2, effort=0))
    found, wanted = session.run({"x": X}), expected(proto, {"x": X})
    for value, want in zip(found.values(), wanted, strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)
        else:
            assert value.tolist() == want.tolist()
    steps = session.linked({"x": X}).program.steps
    return [step.layer.op.name for step in steps if isinstance(step, HostStep)]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_models_of_trees_and_lines_run_natively(transform: str) -> None:
    shared: dict[str, Any] = {"post_transform": transform}
    classes = {"classlabels_int64s": LABELS["int64s"], **trees("class", 3), **shared}
    assert on_host(node_model("TreeEnsembleClassifier", {"x": X}, 2, 3, **classes)) == []
    two = trees("class", 1) | {"classlabels_int64s": [4, 9]} | shared
    assert on_host(node_model("TreeEnsembleClassifier", {"x": X}, 2, 3, **two)) == []
    assert on_host(node_model("TreeEnsembleRegressor", {"x": X}, 1, 3, n_targets=2, **trees("target", 2), **shared)) == []
    lines = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [4, 5, 6], **shared}
    assert on_host(node_model("LinearClassifier", {"x": X}, 2, 3, **lines)) == []


def test_labels_that_are_strings_are_looked_up_on_the_host() -> None:
    proto = node_model("TreeEnsembleClassifier", {"x": X}, 2, 3, classlabels_strings=LABELS["strings"], **trees("class", 3))
    assert on_host(proto) == ["gather"]


def test_features_that_do_not_exist_are_refused() -> None:
    attributes = trees("target", 1)
    proto = node_model("TreeEnsembleRegressor", {"x": X[:, :2]}, 1, 3, n_targets=1, **attributes)
    with pytest.raises(InputError, match="found 2 features, needed 4"):
        specialise(import_model(proto), {"x": (6, 2)})
    attributes["nodes_featureids"][0] = -1
    with pytest.raises(ModelError, match="found feature -1 of a node, needed numbers from 0"):
        import_model(node_model("TreeEnsembleRegressor", {"x": X}, 1, 3, n_targets=1, **attributes))


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_a_classifier_of_one_label_always_gives_it(threshold: float) -> None:
    attributes = {"coefficients": COEFFICIENTS[:4], "intercepts": [threshold], "classlabels_ints": [7]}
    proto = node_model("LinearClassifier", {"x": X}, 2, 3, **attributes)
    assert reference.run(import_model(proto), {"x": X})["y0"].tolist() == [7] * len(X)


def test_trees_are_tuned_on_trees() -> None:
    """Random numbers would be nodes that never end."""
    proto = node_model("TreeEnsembleRegressor", {"x": X}, 1, 3, n_targets=1, **trees("target", 1))
    plan = softneuro.tune(proto, threads=1, effort=1)
    assert [choice.routine for choice in plan.choices.values()] == ["tree_ensemble.lockstep.any.plain"]
    (measured,) = plan.provenance.measured.values()
    assert len(measured) > 1
