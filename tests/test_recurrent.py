"""recurrent.steps.f32.chf against numpy, directly and through sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import cases, check, execute, random_inputs, runnable_targets

from softneuro import Session, tune
from softneuro.ops.recurrent import GATES, Recurrent
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates
from softneuro.routines.recurrent import RECURRENT_STEPS_F32_CHF
from softneuro.runtime.team import Team
from softneuro.tuning.measure import measure
from softneuro.tuning.profile import Measurement
from softneuro.types import DType, TensorType
from tests.conformance_cases import node_cases

HOST, *NARROWER = runnable_targets().items()
ACTIVATIONS = {"rnn": ("tanh(x0)",), "gru": ("sigmoid(x0)", "tanh(x0)"), "lstm": ("sigmoid(x0)", "tanh(x0)", "tanh(x0)")}


def recurrent(kind: str, steps: int, n: int, features: int, hidden: int, *, direction: str = "forward", given: str = "b",
              threads: int = 1, constant: bool = True, length_type: DType = DType.I32, **fields: object) -> Problem:
    """``given``: the optional inputs by letter (bias, lengths, hidden state, cell state, peepholes)."""
    d = 2 if direction == "bidirectional" else 1
    programs = fields.pop("activations", ACTIVATIONS[kind] * d)
    op = Recurrent(kind, hidden, programs, direction, **fields)
    rows = GATES[kind] * hidden
    state = (n, d, hidden) if op.batch_first else (d, n, hidden)
    shapes = {"b": (d, 2 * rows), "l": (n,), "h": state, "c": state, "p": (d, 3 * hidden)}
    x = (n, steps, features) if op.batch_first else (steps, n, features)
    inputs = [TensorType(DType.F32, s) for s in (x, (d, rows, features), (d, rows, hidden))]
    inputs += [TensorType(length_type if k == "l" else DType.F32, s) if k in given else None for k, s in shapes.items()]
    known = tuple(constant and i in (1, 2, 3, 7) and t is not None for i, t in enumerate(inputs))
    return Problem.of(op, tuple(inputs), known, threads)


EVERYTHING = {"given": "blhcp", "direction": "bidirectional"}
PROBLEMS = {
    "lstm": recurrent("lstm", 5, 1, 7, 20),
    "lstm_rows": recurrent("lstm", 4, 5, 7, 20),
    "lstm_everything": recurrent("lstm", 4, 3, 5, 19, **EVERYTHING),
    "lstm_batch_first": recurrent("lstm", 4, 3, 5, 19, batch_first=True, **EVERYTHING),
    "lstm_coupled_clipped": recurrent("lstm", 3, 2, 5, 16, coupled=True, clip=0.7, given="p"),
    "lstm_one_step": recurrent("lstm", 1, 1, 40, 40, given="bhc"),
    "gru": recurrent("gru", 5, 1, 7, 20),
    "gru_rows": recurrent("gru", 4, 5, 7, 40),
    "gru_everything": recurrent("gru", 4, 3, 5, 19, given="blh", direction="bidirectional"),
    "gru_linear": recurrent("gru", 5, 1, 7, 20, linear_before_reset=True, direction="reverse"),
    "gru_linear_everything": recurrent("gru", 4, 3, 5, 19, given="blh", direction="bidirectional", linear_before_reset=True,
                                       batch_first=True, clip=0.5),
    "rnn": recurrent("rnn", 5, 1, 7, 100, given=""),
    "rnn_rows_backwards": recurrent("rnn", 4, 5, 7, 33, given="blh", direction="reverse", length_type=DType.I64),
    "one_unit": recurrent("lstm", 4, 2, 1, 1, given="blhcp", direction="bidirectional"),
    "no_steps": recurrent("gru", 0, 2, 3, 5, given="bh"),
    "no_steps_no_state": recurrent("lstm", 0, 2, 3, 5, direction="bidirectional"),
}
EVERY_TARGET = ("lstm_everything", "gru_everything", "gru_linear_everything", "rnn_rows_backwards")
EVERY_SCHEDULE = ("lstm", "gru_rows")
SHARED_SCHEDULE = {"rows": 2, "blocks": 2, "split": 0, "mr": 4, "nv": 2}
"""What tests of other things than schedules run with: one kernel for each kind of cell."""


def selected() -> list[tuple]:
    """Each schedule and target compiles anew, so most problems run with the first schedule on this machine's target."""
    found = []
    for name, problem in PROBLEMS.items():
        for target in [HOST, *NARROWER] if name in EVERY_TARGET else [HOST]:
            runs = cases(RECURRENT_STEPS_F32_CHF, {name: problem}, dict([target]))
            found += runs if name in EVERY_SCHEDULE and target is HOST else runs[:1]
    return found


CASES = selected()


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(RECURRENT_STEPS_F32_CHF, problem, signature, schedule, target)


SHARED = {
    "directions": recurrent("gru", 4, 1, 5, 40, direction="bidirectional", linear_before_reset=True, threads=2),
    "elements": recurrent("lstm", 4, 5, 5, 20, given="blhc", threads=3),
    "units": recurrent("lstm", 4, 2, 5, 100, given="blhc", direction="reverse", threads=3),
    "units_and_a_reset": recurrent("gru", 4, 1, 5, 100, given="blh", direction="bidirectional", threads=2),
    "more_threads_than_blocks": recurrent("rnn", 4, 1, 5, 40, threads=8),
}


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("name", SHARED)
def test_work_is_shared_by_threads(name: str, split: int) -> None:
    problem, (_, target) = SHARED[name], HOST
    (signature,) = RECURRENT_STEPS_F32_CHF.signatures(problem)
    schedule = SHARED_SCHEDULE | {"split": split}
    for threads in (1, 2, 3):
        check(RECURRENT_STEPS_F32_CHF, problem, signature, schedule, target, threads=threads)


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_a_schedule_serves_any_batch(rows: int) -> None:
    tuned, other = recurrent("lstm", 4, 5, 7, 20), recurrent("lstm", 6, rows, 7, 20)
    (signature,), target = RECURRENT_STEPS_F32_CHF.signatures(tuned), HOST[1]
    schedule = SHARED_SCHEDULE
    check(RECURRENT_STEPS_F32_CHF, other, signature, schedule, target)
    built = RECURRENT_STEPS_F32_CHF.build(other, signature, schedule, target)
    kernels = RECURRENT_STEPS_F32_CHF.kernels(tuned, signature, schedule, target)
    assert {launch.kernel for launch in built.launches} <= set(kernels)


UNUSUAL = {
    "smooth": ("softsign(x0)", "elu(x0,1.0)", "softplus(x0)"),
    "each_direction_its_own": ("hard_sigmoid(x0,0.3,0.4)", "leaky_relu(x0,0.1)", "thresholded_relu(x0,0.2)",
                               "hard_sigmoid(x0,0.2,0.5)", "mul(x0,0.5);add(t0,0.25)", "mul(x0,0.7);tanh(t0);mul(t1,1.5)"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_activations(name: str) -> None:
    activations = UNUSUAL[name]
    direction = "bidirectional" if len(activations) > 3 else "forward"
    problem = recurrent("lstm", 4, 2, 3, 18, direction=direction, activations=activations, given="blhcp", clip=0.8)
    (signature,), (_, target) = RECURRENT_STEPS_F32_CHF.signatures(problem), HOST
    check(RECURRENT_STEPS_F32_CHF, problem, signature, SHARED_SCHEDULE, target)


KINDS = {"lstm": ("lstm", {}), "gru": ("gru", {}), "gru_linear": ("gru", {"linear_before_reset": True}), "rnn": ("rnn", {})}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(st.data())
def test_any_sizes(kind: str, data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    name, fields = KINDS[kind]
    steps, n = draw(0, 6), draw(1, 6)
    problem = recurrent(
        name, steps, n, draw(1, 20), draw(1, 40), direction=data.draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        given=data.draw(st.sampled_from(["", "b", "bl", "lh", "blhc"])), batch_first=data.draw(st.booleans()), **fields,
    )  # fmt: skip
    values = random_inputs(problem, np.random.default_rng(steps), exact=False)
    if values[4] is not None:
        values[4] = np.array([draw(0, steps) for _ in range(n)], np.int32)
    schedule = SHARED_SCHEDULE | {"split": draw(0, 1)}
    (signature,), (_, target) = RECURRENT_STEPS_F32_CHF.signatures(problem), HOST
    found = execute(RECURRENT_STEPS_F32_CHF, problem, signature, schedule, target, values, draw(1, 3))
    for got, want in zip(found, problem.op.reference(values), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)


def test_lengths_outside_the_sequence_are_limited() -> None:
    problem = recurrent("rnn", 4, 3, 5, 20, given="bl", direction="reverse")
    (signature,), (_, target) = RECURRENT_STEPS_F32_CHF.signatures(problem), HOST
    values = random_inputs(problem, np.random.default_rng(0), exact=False)
    results = []
    for lengths in ([4, 0, 2], [9, -3, 2]):
        values[4] = np.array(lengths, np.int32)
        results.append(execute(RECURRENT_STEPS_F32_CHF, problem, signature, SHARED_SCHEDULE, target, values))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


LSTM = recurrent("lstm", 4, 3, 5, 6, given="blhcp")


def changed(index: int, dtype: DType, *shape: int) -> Problem:
    inputs = list(LSTM.inputs)
    inputs[index] = TensorType(dtype, shape)
    return replace(LSTM, inputs=tuple(inputs))


REFUSED = {
    "double": (changed(0, DType.F64, 4, 3, 5), "found f64 input, needed f32"),
    "computed_weights": (recurrent("gru", 4, 3, 5, 6, constant=False), "found weights computed at run time, needed constants"),
    "bias": (changed(3, DType.F32, 1, 6), "found bias of f32[1,6], needed f32[1,48]"),
    "lengths": (changed(4, DType.I32, 2), "found lengths of i32[2], needed i32[3] or i64[3]"),
    "state": (changed(5, DType.F32, 1, 1, 6), "found hidden state of f32[1,1,6], needed f32[1,3,6]"),
    "peepholes": (changed(7, DType.F32, 1, 6), "found peepholes of f32[1,6], needed f32[1,18]"),
    "no_features": (recurrent("rnn", 4, 3, 0, 6), "found a sequence of 0 features, needed 1 to 8388608"),
    "one_output": (replace(LSTM, outputs=LSTM.outputs[:1]), "found 1 outputs, needed all 3"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_say_found_and_needed(case: tuple) -> None:
    assert RECURRENT_STEPS_F32_CHF.reject(case[0], HOST[1]) == case[1]


def test_an_empty_batch_computes_nothing() -> None:
    (candidate,) = candidates(recurrent("lstm", 4, 0, 5, 6), HOST[1])
    assert candidate.routine.name == "recurrent.empty"


def test_problem_text_round_trip() -> None:
    for problem in PROBLEMS.values():
        assert Problem.parse(problem.key()) == problem


@pytest.mark.parametrize("problem", [recurrent("gru", 20, 1, 8, 256), recurrent("lstm", 20, 1, 8, 256)], ids=["gru", "lstm"])
def test_many_units_over_many_steps_are_measured(problem: Problem) -> None:
    (signature,), (_, target) = RECURRENT_STEPS_F32_CHF.signatures(problem), HOST
    choice, found = Choice(RECURRENT_STEPS_F32_CHF.name, signature, SHARED_SCHEDULE), []
    measure(problem, [choice], target, Team(1, target), footprint=0, finished=lambda choice, result: found.append(result))
    assert [type(result) for result in found] == [Measurement]


def session_of(proto: onnx.ModelProto, native: int = 1) -> Session:
    """A session for the model as it is, after a look at its plan: ``native`` layers must have a recurrent routine."""
    plan = tune(proto, threads=2, effort=0)
    assert [c.routine for c in plan.choices.values()].count(RECURRENT_STEPS_F32_CHF.name) == native
    return Session(plan)


NODES = sorted(name for name in node_cases() if name.startswith(("test_lstm", "test_gru", "test_rnn", "test_simple_rnn")))


@pytest.mark.parametrize("name", NODES)
def test_onnx_nodes_with_constant_weights(name: str) -> None:
    case = node_cases()[name]
    proto = onnx.ModelProto.FromString(case.model.SerializeToString())
    (data,) = case.data_sets
    graph, node = proto.graph, proto.graph.node[0]
    known = {node.input[i] for i in (1, 2, 3, 7) if i < len(node.input)}
    graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in data.feeds.items() if n in known)
    left = [info for info in graph.input if info.name not in known]
    del graph.input[:]
    graph.input.extend(left)
    found = session_of(proto).run({info.name: data.feeds[info.name] for info in left})
    for info, want in zip(graph.output, data.outputs, strict=True):
        np.testing.assert_allclose(found[info.name], want, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("wanted", [("y",), ("", "h"), ("", "", "c"), ("y", "", "c")], ids=str)
def test_outputs_that_a_model_leaves_out(wanted: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    x, *weights = (rng.standard_normal(s).astype(np.float32) for s in ((4, 2, 3), (1, 20, 3), (1, 20, 5)))
    names = [name for name in wanted if name]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("LSTM", ["x", "w", "r"], list(wanted), hidden_size=5)], "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names],
        [onnx.numpy_helper.from_array(a, n) for a, n in zip(weights, "wr", strict=True)],
    )  # fmt: skip
    found = session_of(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)])).run({"x": x})
    expected = Recurrent("lstm", 5, ACTIVATIONS["lstm"]).reference([x, *weights])
    assert set(found) == set(names)
    for name in names:
        np.testing.assert_allclose(found[name], expected["yhc".index(name)], rtol=0, atol=1e-6)
