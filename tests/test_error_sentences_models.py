"""What is said about broken models, exactly."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

import softneuro
from softneuro.errors import InputError, ModelError, ResourceLimitError, UnsupportedOp
from softneuro.limits import ResourceLimits
from tests.broken_inputs import (
    Broken,
    X,
    body,
    branches,
    call,
    chain_of_functions,
    changed,
    endless_loop,
    external,
    floats,
    imported,
    ints,
    labels_in_a_file,
    larger_than_protobuf,
    limited,
    local_functions,
    nested,
    node,
    pipe,
    sentence_test,
    session,
    shaped,
    weight,
    weight_in_a_file,
)
from tests.onnx_build import model, normal, one_node

BROKEN: Broken = {
    "model_empty": (
        imported(b""),
        ModelError,
        "the model: found no graph, needed an ONNX model",
    ),
    "model_foreign_text": (
        imported(b"hello, this is no model at all"),
        ModelError,
        "the model: found 30 bytes that are no ONNX model or a part of one, needed a whole model",
    ),
    "model_truncated": (
        imported(one_node("Relu", X).SerializeToString()[:-7]),
        ModelError,
        "the model: found 63 bytes that are no ONNX model or a part of one, needed a whole model",
    ),
    "model_no_path": (
        lambda folder: softneuro.tune(folder / "none.onnx"),
        ModelError,
        "model file 'FOLDER/none.onnx': cannot be read (No such file or directory), needed the path of an "
        "ONNX file",
    ),
    "model_a_folder": (
        lambda folder: softneuro.tune(folder),
        ModelError,
        "model file 'FOLDER': cannot be read (no regular file), needed the path of an ONNX file",
    ),
    "model_nul_in_path": (
        lambda folder: softneuro.tune('a\0b'),
        ModelError,
        "model file 'a\\x00b': cannot be read (embedded null byte), needed the path of an ONNX file",
    ),
    "model_a_pipe": (
        pipe(softneuro.tune),
        ModelError,
        "model file 'FOLDER/pipe': cannot be read (no regular file), needed the path of an ONNX file",
    ),
    "model_more_than_a_protobuf": (
        larger_than_protobuf,
        ModelError,
        "model file 'FOLDER/m.onnx': found 2147483648 bytes, needed at most 2147483647, the most of a "
        "protobuf: save its weights as external data",
    ),
    "model_opset_too_new": (
        changed(lambda m: setattr(m.opset_import[0], "version", 999)),
        ModelError,
        "the model: uses operator set version 999, needed one from 1 to 28",
    ),
    "model_opset_zero": (
        changed(lambda m: setattr(m.opset_import[0], "version", 0)),
        ModelError,
        "the model: uses operator set version 0, needed one from 1 to 28",
    ),
    "model_no_opset": (
        changed(lambda m: m.ClearField("opset_import")),
        ModelError,
        "layer 'make_y' (Add): domain '' has no operator set version in the model, needed one: export it "
        "again",
    ),
    "model_unknown_domain": (
        imported(one_node("Frobnicate", X, domain="my.ops")),
        UnsupportedOp,
        "layer 'the_node' (Frobnicate, domain 'my.ops', opset 1): found no layer class and no reference "
        "implementation of this operator, needed one of them",
    ),
    "model_unknown_operator": (
        imported(one_node("Frobnicate", X)),
        UnsupportedOp,
        "layer 'the_node' (Frobnicate, opset 20): found no layer class and no reference implementation of "
        "this operator, needed one of them",
    ),
    "model_too_few_inputs": (
        imported(one_node("Add", X)),
        ModelError,
        "layer 'the_node' (Add, opset 20): Node(the_node) with schema(::Add:14) has input size 1 not in "
        "range [min=2, max=2]",
    ),
    "model_unknown_attribute": (
        imported(one_node("Relu", X, colour=3)),
        ModelError,
        "layer 'the_node' (Relu, opset 20): Unrecognized attribute: colour for operator Relu",
    ),
    "model_missing_attribute": (
        imported(one_node("Concat", X)),
        ModelError,
        "layer 'the_node' (Concat, opset 20): Required attribute 'axis' is missing",
    ),
    "model_wrong_attribute_type": (
        imported(one_node("Softmax", X, axis=1.5)),
        ModelError,
        "layer 'the_node' (Softmax, opset 20): Mismatched attribute type in 'the_node : axis'. Expected: "
        "'INT', actual: 'FLOAT'",
    ),
    "model_attribute_of_a_function": (
        changed(lambda m: m.graph.node[0].attribute.add(name="a", ref_attr_name="b", type=1)),
        ModelError,
        "layer 'make_y' (Add): attribute 'a' refers to attribute 'b' of a function, needed a value of its "
        "own outside of functions",
    ),
    "model_zero_stride": (
        imported(one_node("MaxPool", {"x": normal(1, 3, 5, 5)}, kernel_shape=[2, 2], strides=[0, 1])),
        ModelError,
        "layer 'the_node' (MaxPool, opset 20): found kernel (2, 2), strides (0, 1), dilations (1, 1), "
        "needed numbers of at least 1",
    ),
    "model_bias_of_another_size": (
        imported(one_node("Conv", {"x": normal(1, 3, 5, 5)}, constants={"w": normal(2, 3, 3, 3), "b": normal(1)})),
        InputError,
        "layer 'the_node' (conv): bias has shape (1,), needed (2,)",
    ),
    "model_branch_is_a_tensor": (
        branches(TensorProto(), body("Neg", "x")),
        ModelError,
        "layer 'make_y' (If, opset 20): its attributes or constants do not fit the operator (initializer), "
        "needed those of its definition",
    ),
    "model_channels_do_not_fit": (
        imported(one_node("Conv", {"x": normal(1, 4, 5, 5)}, constants={"w": normal(2, 3, 3, 3)})),
        InputError,
        "layer 'the_node' (conv): input has 4 channels, weights (2, 3, 3, 3) expect 3 x 1 groups",
    ),
    "model_operands_do_not_fit": (
        imported(one_node("MatMul", {"x": normal(2, 3), "z": normal(4, 2)})),
        InputError,
        "layer 'the_node' (matmul): operands have shapes (2, 3) and (4, 2), which sum 3 and 4 products, "
        "needed equal counts",
    ),
    "model_nan_range": (
        imported(one_node("Range", {}, constants={"a": np.float32(0), "b": np.float32(np.nan), "c": np.float32(1)})),
        InputError,
        "layer 'the_node' (range): found a range from 0.0 to nan in steps of 1.0, needed finite numbers",
    ),
    "model_cycle": (
        imported(model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], X, ["b"])),
        ModelError,
        "layer 'make_a' (Add, opset 20): is part of a cycle, needed an order to run the nodes in: export "
        "the model again",
    ),
    "model_reads_nothing": (
        imported(model([node("Add", ["x", "ghost"], ["y"])], X, ["y"])),
        ModelError,
        "layer 'make_y' (Add, opset 20): reads 'ghost', which is made by no node, needed an input, a "
        "constant or the output of a node: export the model again",
    ),
    "model_body_reads_nothing": (
        branches(body("Neg", "ghost"), body("Neg", "ghost")),
        ModelError,
        "layer 'make_y' (If, opset 20): reads 'ghost', which is made by no node, needed an input, a "
        "constant or the output of a node: export the model again",
    ),
    "model_output_of_nobody": (
        imported(model([node("Relu", ["x"], ["y"])], X, ["z"])),
        ModelError,
        "graph 'test': output 'z' is made by no node, needed an input, a constant or the output of a node",
    ),
    "model_made_twice": (
        imported(model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])], X, ["y"])),
        ModelError,
        "layer 'make_y' (Abs, opset 20): makes 'y', which exists already, needed a name of its own",
    ),
    "model_input_twice": (
        changed(lambda m: m.graph.input.append(m.graph.input[0])),
        ModelError,
        "graph 'test': input 'x' is listed twice or has no name, needed names of their own",
    ),
    "model_weight_twice": (
        changed(lambda m: m.graph.initializer.append(m.graph.initializer[0])),
        ModelError,
        "graph 'test': initialiser 'w' is there twice or has no name, needed names of their own",
    ),
    "model_weight_without_name": (
        changed(lambda m: setattr(m.graph.initializer[0], "name", "")),
        ModelError,
        "graph 'test': initialiser '' is there twice or has no name, needed names of their own",
    ),
    "model_weight_too_short": (
        weight(data_type=1, dims=[2, 3], raw_data=bytes(20)),
        ModelError,
        "tensor 'w' of shape (2, 3): found 20 bytes of data, needed 24: fetch or export the model again",
    ),
    "model_weight_values_missing": (
        weight(data_type=1, dims=[2, 3], float_data=[1.0]),
        ModelError,
        "tensor 'w' of shape (2, 3): cannot reshape array of size 1 into shape (2,3), needed as many "
        "elements as its shape has",
    ),
    "model_weight_negative_size": (
        weight(data_type=1, dims=[-2, 3]),
        ModelError,
        "tensor 'w': found shape (-2, 3), needed sizes of at least 0",
    ),
    "model_weight_unknown_type": (
        weight(data_type=999, dims=[2], raw_data=bytes(8)),
        ModelError,
        "tensor 'w': found element type 999, needed one that ONNX defines",
    ),
    "model_weight_shape_overflows": (
        weight(data_type=1, dims=[1 << 62, 1 << 62]),
        ResourceLimitError,
        "tensor 'w': shape (4611686018427387904, 4611686018427387904) needs "
        "85070591730234615865843651857942052864 bytes, 17179869184 are allowed (limit 'tensor_bytes': "
        "--limit tensor_bytes=77371252455336267181195264T raises it)",
    ),
    "model_weight_of_many_axes": (
        weight(data_type=1, dims=[1] * 65, raw_data=bytes(4)),
        ResourceLimitError,
        "tensor 'w': has rank 65, 64 are allowed (limit 'rank': --limit rank=65 raises it)",
    ),
    "model_name_not_utf8": (
        imported(one_node("Relu", X).SerializeToString().replace(b"the_node", b'the_n\xff\xffe')),
        ModelError,
        "the model: found a name with the bytes b'the_n\\xff\\xffe', needed UTF-8: export the model again",
    ),
    "model_function_calls_itself": (
        local_functions(("F", [call("F")])),
        ModelError,
        "function 'F' of domain 'local' calls itself, needed functions without recursion",
    ),
    "model_functions_call_each_other": (
        local_functions(("F", [call("G")]), ("G", [call("F")])),
        ModelError,
        "function 'F' of domain 'local' calls itself, needed functions without recursion",
    ),
    "model_functions_nested": (
        chain_of_functions(99),
        ResourceLimitError,
        "function 'F63' of domain 'local': calls in functions are nested 65, 64 are allowed (limit "
        "'nesting': --limit nesting=65 raises it)",
    ),
    "model_function_bomb": (
        chain_of_functions(40, 2),
        ResourceLimitError,
        "the number of the model's nodes once its functions are inlined is 3298534883328, 1000000 are "
        "allowed (limit 'nodes': --limit nodes=3299G raises it)",
    ),
    "model_bodies_nested": (
        nested(6),
        ResourceLimitError,
        "the model: graph 'body': bodies in bodies are nested 7, 6 are allowed (limit 'nesting': --limit "
        "nesting=7 raises it)",
    ),
    "model_one_branch": (
        branches(body("Neg", "x")),
        ModelError,
        "layer 'make_y' (If, opset 20): found one branch, needed then_branch and else_branch",
    ),
    "external_missing": (
        external("nowhere.bin"),
        ModelError,
        "tensor 'w': its data file 'nowhere.bin' is missing from the model's folder, needed it there",
    ),
    "external_absolute": (
        external("/etc/hostname"),
        ModelError,
        "tensor 'w': its data file '/etc/hostname' is outside of the model's folder, needed one inside",
    ),
    "external_parent": (
        external("../w.bin"),
        ModelError,
        "tensor 'w': its data file '../w.bin' is outside of the model's folder, needed one inside",
    ),
    "external_parent_inside": (
        external("sub/../w.bin"),
        ModelError,
        "tensor 'w': its data file 'sub/../w.bin' is outside of the model's folder, needed one inside",
    ),
    "external_windows_parent": (
        external('..\\w.bin'),
        ModelError,
        "tensor 'w': its data file '..\\\\w.bin' is outside of the model's folder, needed one inside",
    ),
    "external_windows_drive": (
        external("C:w.bin"),
        ModelError,
        "tensor 'w': its data file 'C:w.bin' is outside of the model's folder, needed one inside",
    ),
    "external_windows_stream": (
        external("w.bin:secret"),
        ModelError,
        "tensor 'w': its data file 'w.bin:secret' is outside of the model's folder, needed one inside",
    ),
    "external_nothing": (
        external("."),
        ModelError,
        "tensor 'w': its data file '.' is outside of the model's folder, needed one inside",
    ),
    "external_link_out": (
        external("link.bin"),
        ModelError,
        "tensor 'w': its data file 'link.bin' is a link out of the model's folder, needed one inside",
    ),
    "external_link_to_itself": (
        external("circle.bin"),
        ModelError,
        "tensor 'w': its data file 'circle.bin' cannot be found (Symlink loop from "
        "'FOLDER/model/circle.bin'), needed a file in the model's folder",
    ),
    "external_nul": (
        external('w\0.bin'),
        ModelError,
        "tensor 'w': its data file 'w\\x00.bin' cannot be found (embedded null byte), needed a file in the "
        "model's folder",
    ),
    "external_past_the_end": (
        external("w.bin", offset=4),
        ModelError,
        "tensor 'w': file 'w.bin' has 24 bytes, needed 28",
    ),
    "external_wrong_length": (
        external("w.bin", length=20),
        ModelError,
        "tensor 'w' of shape (2, 3): found 20 bytes of external data, needed 24",
    ),
    "external_negative_offset": (
        external("w.bin", offset=-4),
        ModelError,
        "tensor 'w': found offset '-4' of its external data, needed a number of at least 0",
    ),
    "external_huge_offset": (
        external("w.bin", offset=1 << 70),
        ModelError,
        "tensor 'w': found offset '1180591620717411303424' of its external data, needed a number of at "
        "least 0",
    ),
    "external_from_bytes": (
        changed(weight_in_a_file),
        ModelError,
        "tensor 'w': its data are in file 'w.bin', needed the model's path rather than its bytes",
    ),
    "external_in_an_attribute": (
        imported(labels_in_a_file()),
        ModelError,
        "layer 'the_node' (LabelEncoder, domain 'ai.onnx.ml', opset 4): found a tensor in an attribute "
        "whose data lie in a file, needed them in the model",
    ),
    "size_expand": (
        shaped("Expand", {"s": ints(1 << 40, 2, 3)}),
        ResourceLimitError,
        "layer 'the_node' (expand): a tensor of shape (1099511627776, 2, 3) needs 26388279066624 bytes, "
        "17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=24T raises it)",
    ),
    "size_tile": (
        shaped("Tile", {"r": ints(1 << 30, 1 << 30)}),
        ResourceLimitError,
        "layer 'the_node' (tile): a tensor of shape (2147483648, 3221225472) needs 27670116110564327424 "
        "bytes, 17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=25165824T raises it)",
    ),
    "size_constant_of_shape": (
        imported(one_node("ConstantOfShape", {}, constants={"s": ints(1 << 20, 1 << 20)})),
        ResourceLimitError,
        "layer 'the_node' (constant_of_shape): a tensor of shape (1048576, 1048576) needs 4398046511104 "
        "bytes, 17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=4096G raises it)",
    ),
    "size_range": (
        imported(one_node("Range", {}, constants={"a": np.int64(0), "b": np.int64(1 << 50), "c": np.int64(1)})),
        ResourceLimitError,
        "layer 'the_node' (range): a tensor of shape (1125899906842624,) needs 9007199254740992 bytes, "
        "17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=8192T raises it)",
    ),
    "size_pad": (
        shaped("Pad", {"p": ints(0, 0, 1 << 40, 0)}),
        ResourceLimitError,
        "layer 'the_node' (pad): a tensor of shape (1099511627778, 3) needs 13194139533336 bytes, "
        "17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=13T raises it)",
    ),
    "size_resize": (
        imported(one_node("Resize", {"x": normal(1, 1, 2, 2)}, constants={"roi": floats(), "scales": floats(1, 1, 1e6, 1e6)})),
        ResourceLimitError,
        "layer 'the_node' (resize): a tensor of shape (1, 1, 2000000, 2000000) needs 16000000000000 bytes, "
        "17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=15T raises it)",
    ),
    "size_convolution_pads": (
        imported(one_node("Conv", {"x": normal(1, 1, 4, 4)}, constants={"w": normal(1, 1, 3, 3)}, pads=[1 << 20, 1 << 20, 0, 0])),
        ResourceLimitError,
        "layer 'the_node' (conv): a tensor of shape (1, 1, 1048578, 1048578) needs 4398063288336 bytes, "
        "17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=4097G raises it)",
    ),
    "size_one_hot": (
        imported(one_node("OneHot", {"x": np.zeros((2, 3), np.int64)}, constants={"d": ints(1 << 40), "v": floats(0, 1)})),
        ResourceLimitError,
        "layer 'the_node' (one_hot): a tensor of shape (2, 3, 1099511627776) needs 26388279066624 bytes, "
        "17179869184 are allowed (limit 'tensor_bytes': --limit tensor_bytes=24T raises it)",
    ),
    "size_nodes": (
        limited(model([node("Relu", ["x"], ["t"]), node("Neg", ["t"], ["y"])], X, ["y"]), nodes=1),
        ResourceLimitError,
        "the model: the number of nodes is at least 2, 1 are allowed (limit 'nodes': --limit nodes=4 "
        "raises it)",
    ),
    "size_weights": (
        limited(one_node("Add", X, constants={"w": normal(2, 3)}), weight_bytes=20),
        ResourceLimitError,
        "the model: its constants up to tensor 'w' need 24 bytes, 20 are allowed (limit 'weight_bytes': "
        "--limit weight_bytes=24 raises it)",
    ),
    "size_text": (
        limited(one_node("Relu", X), text_bytes=4),
        ResourceLimitError,
        "the model: a text of 'the_node' has 8 bytes, 4 are allowed (limit 'text_bytes': --limit "
        "text_bytes=8 raises it)",
    ),
    "size_memory": (
        lambda folder: softneuro.Session(session().plan, 1, limits=ResourceLimits(memory=60)).run(X),
        ResourceLimitError,
        "layer 'make_t' (matmul): its inputs and outputs need 104 bytes, 60 are allowed (limit 'memory': "
        "--limit memory=104 raises it)",
    ),
    "size_iterations": (
        endless_loop,
        ResourceLimitError,
        "layer 'make_y' (loop): the number of iterations is at least 10, 9 are allowed (limit "
        "'iterations': --limit iterations=20 raises it)",
    ),
    "size_negative_limit": (
        lambda folder: ResourceLimits(nodes=-1),
        InputError,
        "limits: found nodes = -1, needed 0 or more",
    ),
}


test_sentence = sentence_test(BROKEN)
