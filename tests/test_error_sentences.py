"""What is said about feeds, arguments, plans and profiles that do not fit, exactly."""

from __future__ import annotations

import struct

import numpy as np

import softneuro
from softneuro.errors import InputError, ModelError, PlanError, ProfileError, ResourceLimitError
from softneuro.limits import ResourceLimits
from tests.broken_inputs import Broken, X, fed, headed, layer_text, pipe, planned, profiled, sentence_test, session, tuned
from tests.onnx_build import normal

BROKEN: Broken = {
    "feed_unknown_name": (
        fed({"z": X["x"]}),
        InputError,
        "input 'z' is not one of the model's: needed 'x'",
    ),
    "feed_missing": (
        fed({}),
        InputError,
        "input 'x' is missing: needed 'x'",
    ),
    "feed_wrong_type": (
        fed({"x": X["x"].astype(np.float64)}),
        InputError,
        "input 'x': found data type float64, needed float32",
    ),
    "feed_texts": (
        fed({"x": [["a", "b", "c"]]}),
        InputError,
        "input 'x': found data type <U1, needed float32",
    ),
    "feed_wrong_size": (
        fed({"x": normal(2, 4)}),
        InputError,
        "input 'x': found shape (2, 4), needed 2x3",
    ),
    "feed_wrong_rank": (
        fed({"x": normal(3)}),
        InputError,
        "input 'x': found shape (3,) of rank 1, needed 2x3",
    ),
    "feed_ragged": (
        fed({"x": [[1.0], [1.0, 2.0]]}),
        InputError,
        "input 'x': found a list that makes no array, needed rows of one length",
    ),
    "feed_unknown_output": (
        fed(X, ["z"]),
        InputError,
        "output 'z' is not one of the model's: needed 'y'",
    ),
    "feed_no_mapping": (
        lambda folder: session().run(X["x"]),
        InputError,
        "feeds: found ndarray, needed a mapping with an array for each of 'x'",
    ),
    "feed_output_array": (
        lambda folder: session().bind(X, {"y": np.zeros((2, 5), np.float32)}),
        InputError,
        "output 'y': found float32 (2, 5), needed a writeable C-contiguous float32 array of shape (2, 4)",
    ),
    "feed_symbol": (
        lambda folder: session(free=True).run({"x": normal(2, 4)}),
        InputError,
        "input 'x': found shape (2, 4), needed nx3",
    ),
    "argument_threads": (
        tuned(threads=0),
        InputError,
        "threads: found 0, needed 1 or more",
    ),
    "argument_effort": (
        tuned(effort=9),
        InputError,
        "effort: found 9, needed 0 to 3",
    ),
    "argument_time_limit": (
        tuned(time_limit=-1.0),
        InputError,
        "time_limit: found -1.0, needed 0 or more seconds",
    ),
    "argument_dtypes": (
        tuned(dtypes=("f64",)),
        InputError,
        "dtypes: found f64, needed f32 and any of bf16, f16, qint8",
    ),
    "argument_routines_text": (
        tuned(routines="igemm"),
        InputError,
        "routines: found the text 'igemm', needed a list of texts",
    ),
    "argument_unknown_input": (
        tuned(shapes={"z": (1,)}),
        InputError,
        "shape for 'z': the model has no such input, needed one of x",
    ),
    "argument_negative_shape": (
        tuned(shapes={"x": (-1, 3)}),
        InputError,
        "shape for 'x': found (-1, 3), needed sizes of at least 0 like (2, 3)",
    ),
    "argument_wrong_rank": (
        tuned(shapes={"x": (1, 2, 3)}),
        InputError,
        "shape for 'x': found (1, 2, 3), needed sizes of at least 0 like (2, 3)",
    ),
    "argument_sizes_do_not_fit": (
        tuned(shapes={"x": (2, 5)}),
        InputError,
        "layer 'make_y' (matmul): operands have shapes (2, 5) and (3, 4), which sum 5 and 3 products, "
        "needed equal counts",
    ),
    "argument_error_on_miss": (
        tuned(error_on_miss=True),
        InputError,
        "error_on_miss: found no profile, needed one that has all measurements",
    ),
    "argument_session_threads": (
        lambda folder: softneuro.Session(session().plan, 0),
        InputError,
        "threads: found 0, needed 1 or more",
    ),
    "argument_repeat": (
        lambda folder: session().profile(X, 0),
        InputError,
        "repeat: found 0, needed 1 or more",
    ),
    "argument_model_type": (
        lambda folder: softneuro.tune(3),
        ModelError,
        "the model: found int, needed a path, the bytes of a file or a ModelProto",
    ),
    "argument_shapes_type": (
        tuned(shapes={"x": ("a", 3)}),
        InputError,
        "input 'x': found the range ('a',), needed two sizes of 1 or more, the least first",
    ),
    "plan_absent": (
        lambda folder: softneuro.Plan.load(folder / "none.plan"),
        PlanError,
        "plan 'FOLDER/none.plan': cannot be read: No such file or directory",
    ),
    "plan_a_folder": (
        lambda folder: softneuro.Plan.load(folder),
        PlanError,
        "plan 'FOLDER': cannot be read: Is a directory",
    ),
    "plan_a_pipe": (
        pipe(softneuro.Plan.load),
        PlanError,
        "plan 'FOLDER/pipe': cannot be read: no regular file, needed a softneuro plan file",
    ),
    "plan_empty": (
        planned(lambda b: b""),
        PlanError,
        "plan 'FOLDER/a.plan': found 0 bytes, needed a softneuro plan file",
    ),
    "plan_foreign": (
        planned(lambda b: b"x" + b[1:]),
        PlanError,
        "plan 'FOLDER/a.plan': is not a softneuro plan file, needed one: softneuro tune makes it of a model",
    ),
    "plan_other_version": (
        planned(lambda b: b[:16] + b'\x63' + b[17:]),
        PlanError,
        "plan 'FOLDER/a.plan': found format version 99, needed 1: tune the model again",
    ),
    "plan_cut": (
        planned(lambda b: b[:100]),
        PlanError,
        "plan 'FOLDER/a.plan': is truncated: found 100 bytes, needed 1024 or more: copy it again",
    ),
    "plan_damaged": (
        planned(lambda b: b[:-1]),
        PlanError,
        "plan 'FOLDER/a.plan': is damaged: its contents do not match its digest: copy it again",
    ),
    "plan_huge_header": (
        planned(lambda b: b[:24] + struct.pack("<Q", 1 << 40) + b[32:]),
        ResourceLimitError,
        "plan 'FOLDER/a.plan': its header has 1099511627776 bytes, 67108864 are allowed (limit "
        "'header_bytes': --limit header_bytes=1024G raises it)",
    ),
    "plan_no_graph": (
        headed(lambda h: h.pop("graph")),
        PlanError,
        "plan 'FOLDER/a.plan': is damaged: its header is not as needed ('graph'): tune the model again",
    ),
    "plan_unknown_op": (
        headed(layer_text("frobnicate()")),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: op text 'frobnicate()': found 'frobnicate', needed "
        "the name of an op: tune the model again",
    ),
    "plan_code": (
        headed(layer_text("matmul(bias=__import__)")),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: op text 'matmul(bias=__import__)': found no such "
        "value for bias, needed bool: tune the model again",
    ),
    "plan_wrong_field": (
        headed(layer_text("matmul(bias=3)")),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: op text 'matmul(bias=3)': found bias=3, needed bool: "
        "tune the model again",
    ),
    "plan_unknown_field": (
        headed(layer_text("matmul(colour=1)")),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: op text 'matmul(colour=1)': matmul has no parameter "
        "'colour', needed one of transpose_a, transpose_b, bias, epilogue: tune the model again",
    ),
    "plan_no_op": (
        headed(layer_text("1 +")),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: op text '1 +': needed a form like conv(strides=(1, "
        "1), ...): tune the model again",
    ),
    "plan_layer_is_no_list": (
        headed(lambda h: h["graph"]["layers"].append(7)),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: cannot unpack non-iterable int object: tune the model "
        "again",
    ),
    "plan_reads_nothing": (
        headed(lambda h: h["graph"]["layers"][0][2].append("ghost")),
        PlanError,
        "plan 'FOLDER/a.plan': its graph is damaged: layer 'make_t' (matmul): reads 'ghost', which nothing "
        "made before it: tune the model again",
    ),
    "plan_blob_outside": (
        headed(lambda h: h["blobs"][0].update(offset=1 << 40)),
        PlanError,
        "plan 'FOLDER/a.plan': constant 0 of 48 bytes at 1099511627776 lies outside of the file's 48 bytes "
        "of constants, needed it inside at a multiple of 64",
    ),
    "plan_blob_negative": (
        headed(lambda h: h["blobs"][0].update(shape=[-3, 4])),
        PlanError,
        "plan 'FOLDER/a.plan': constant 0 has shape (-3, 4), needed sizes of 0 or more",
    ),
    "plan_blob_huge": (
        headed(lambda h: h["blobs"][0].update(shape=[1 << 40, 1 << 40])),
        ResourceLimitError,
        "plan 'FOLDER/a.plan': a tensor of shape (1099511627776, 1099511627776) needs "
        "4835703278458516698824704 bytes, 17179869184 are allowed (limit 'tensor_bytes': --limit "
        "tensor_bytes=4398046511104T raises it)",
    ),
    "plan_blob_of_objects": (
        headed(lambda h: h["blobs"][0].update(dtype="str")),
        PlanError,
        "plan 'FOLDER/a.plan': constant 0 has data type str, needed numbers",
    ),
    "plan_unknown_blob": (
        headed(lambda h: h["graph"]["constants"].update(w=9)),
        PlanError,
        "plan 'FOLDER/a.plan': found constant 9, needed a number below 1",
    ),
    "plan_threads": (
        headed(lambda h: h["provenance"].update(threads=-3)),
        PlanError,
        "plan 'FOLDER/a.plan': found -3 threads, needed 1 or more",
    ),
    "plan_text_for_number": (
        headed(lambda h: h["provenance"].update(predicted_ns="fast")),
        PlanError,
        "plan 'FOLDER/a.plan': found 'fast', needed float | None",
    ),
    "plan_schedule": (
        headed(lambda h: h["choices"].update(a=["r", ">", {"mr": "x"}])),
        PlanError,
        "plan 'FOLDER/a.plan': found 'x', needed int",
    ),
    "plan_format": (
        headed(lambda h: h["choices"].update(a=["r", "f32:sideways>", {}])),
        PlanError,
        "plan 'FOLDER/a.plan': is damaged: its header is not as needed ('sideways' is not a valid Layout): "
        "tune the model again",
    ),
    "plan_layers_above_limit": (
        headed(lambda h: None, ResourceLimits(nodes=0)),
        ResourceLimitError,
        "plan 'FOLDER/a.plan': the number of layers is at least 1, 0 are allowed (limit 'nodes': --limit "
        "nodes=2 raises it)",
    ),
    "plan_view_of_another_size": (
        headed(layer_text("view(shape=(7,))"), run=True),
        InputError,
        "layer 'make_t' (view): found shape (2, 3) of 6 elements, needed 7 for shape (7,)",
    ),
    "profile_foreign": (
        profiled('hello\nworld\n'),
        ProfileError,
        "profile 'FOLDER/p.jsonl', line 1: is not a measurement, needed key, machine, ns and spread: "
        "remove the line",
    ),
    "profile_not_finite": (
        profiled('{"key": "a", "machine": "b", "ns": NaN, "spread": 0}\n'),
        ProfileError,
        "profile 'FOLDER/p.jsonl', line 1: is not a measurement, needed key, machine, ns and spread: "
        "remove the line",
    ),
    "profile_long_line": (
        profiled("x" * 200, ResourceLimits(line_bytes=100)),
        ResourceLimitError,
        "profile 'FOLDER/p.jsonl': a line has at least 101 bytes, 100 are allowed (limit 'line_bytes': "
        "--limit line_bytes=202 raises it)",
    ),
    "profile_a_folder": (
        tuned(effort=1, profile="."),
        ProfileError,
        "profile '.': cannot be read: no regular file, needed another name",
    ),
}


test_sentence = sentence_test(BROKEN)
