"""Why a layer runs with what it has: candidates, ties, refusals and reasons; nothing is measured but where it says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

import softneuro
from softneuro.codegen import target as targets
from softneuro.errors import InputError, SoftneuroError
from softneuro.plan.plan import Choice, Measured, Plan
from softneuro.problem import Problem
from softneuro.report import why
from softneuro.report.explanation import CandidateRow, Explanation, explain_problem, explanations
from softneuro.report.known_times import KnownTimes, is_same
from softneuro.report.why import answer, explain, explain_each, layer_names, matching, measure_missing, measure_untimed, untimed
from softneuro.routines.candidates import candidates, narrow_dtypes_of, rejections
from softneuro.routines.routine import Signature
from softneuro.runtime.session import Session
from softneuro.tuning.profile import Measurement, Profile, routine_digest
from tests.cli_harness import Bench

TARGET = targets.host()
CONV = Problem.parse("conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)) f32[1,16,8,8] *f32[16,16,3,3] "
                     "-> f32[1,16,8,8] @1")  # fmt: skip
GRU = Problem.parse("recurrent(kind='gru', hidden=2, activations=('sigmoid(x0)', 'tanh(x0)')) f32[1,1,3] f32[1,6,3] f32[1,6,2] "
                    "-> f32[1,1,1,2] f32[1,1,2] @1")  # fmt: skip


def measured(problem: Problem, ns: Callable[[int], float | None], spread: float = 0.0) -> dict[str, list[Measured]]:
    """A record in which candidate i takes ns(i)."""
    offered = enumerate(candidates(problem, TARGET))
    return {problem.key(): [Measured(c.routine.name, str(c.signature), c.schedule, ns(i), spread) for i, c in offered]}


def session_of(bench: Bench, change: Callable[[Plan], Plan] = lambda plan: plan) -> Session:
    return Session(change(softneuro.Plan.load(bench.plan)))


# ---- candidates


def test_every_candidate_and_every_refusal_is_listed() -> None:
    found = explain_problem(CONV, TARGET, KnownTimes())
    assert found.problem == CONV.key() and found.layers == () and found.chosen is None
    offered = [c for c in candidates(CONV, TARGET) if not narrow_dtypes_of(CONV, c.routine, c.signature)]
    assert [(row.routine, row.formats, row.schedule) for row in found.candidates] == [
        (c.routine.name, str(c.signature), dict(c.schedule)) for c in offered
    ]  # fmt: skip
    assert {row.note for row in found.candidates} == {"not measured"}
    assert [(r.routine, r.reason) for r in found.refused] == [(r.routine.name, r.reason) for r in rejections(CONV, TARGET)]


def test_the_fastest_comes_first_and_those_without_a_time_last() -> None:
    count = len(candidates(CONV, TARGET))
    found = explain_problem(CONV, TARGET, KnownTimes(measured(CONV, lambda i: None if i == 1 else 1000.0 * (count - i))))
    times = [row.ns for row in found.candidates]
    assert times[:-1] == sorted(t for t in times if t is not None) and times[-1] is None


@pytest.mark.parametrize(("second", "spread", "tied"), [
    (101.0, 0.02, True), (104.0, 0.02, False), (101.0, 0.0, False), (100.0, 0.0, True), (150.0, 0.5, True),
])  # fmt: skip
def test_ties_are_those_whose_ranges_meet(second: float, spread: float, tied: bool) -> None:
    record = measured(CONV, lambda i: [100.0, second][i] if i < 2 else 1e6, spread)
    first, other, *slow = explain_problem(CONV, TARGET, KnownTimes(record)).candidates
    assert (first.tied, other.tied) == (False, tied)
    assert not any(row.tied for row in slow)


def test_the_chosen_one_is_marked() -> None:
    third = candidates(CONV, TARGET)[2]
    choice = Choice(third.routine.name, third.signature, dict(third.schedule))
    found = explain_problem(CONV, TARGET, KnownTimes(), choice=choice, layers=("a", "b"))
    assert found.layers == ("a", "b") and found.chosen is found.candidates[2]


def test_a_choice_that_is_no_candidate_is_listed() -> None:
    choice = Choice("conv.lost.f32.chl", Signature.parse("f32:chl,->f32:chl"), {"mr": 1})
    chosen = explain_problem(CONV, TARGET, KnownTimes(), choice=choice).chosen
    assert chosen is not None and chosen.routine == "conv.lost.f32.chl" and "no candidate" in chosen.note


def test_a_profile_wins_over_the_record(tmp_path: object) -> None:
    profile = Profile(TARGET)
    first = candidates(CONV, TARGET)[0]
    choice = Choice(first.routine.name, first.signature, dict(first.schedule))
    built = first.routine.build(CONV, first.signature, first.schedule, TARGET)
    profile.add(Profile.key(CONV, choice, routine_digest(first.routine, built)), Measurement(7.0, 0.1))
    found = explain_problem(CONV, TARGET, KnownTimes(measured(CONV, lambda i: 100.0), profile))
    assert (found.candidates[0].ns, found.candidates[0].spread) == (7.0, 0.1)
    assert {row.ns for row in found.candidates[1:]} == {100.0}


@pytest.mark.parametrize(("record", "ns", "note"), [
    (KnownTimes(), None, "gives a wrong result"),
    (KnownTimes(measured(CONV, lambda i: 100.0)), 100.0, ""),
], ids=["nothing_else_known", "recorded_time_wins"])  # fmt: skip
def test_a_failure_in_the_profile_is_the_note(record: KnownTimes, ns: float | None, note: str) -> None:
    profile = Profile(TARGET)
    first = candidates(CONV, TARGET)[0]
    choice = Choice(first.routine.name, first.signature, dict(first.schedule))
    built = first.routine.build(CONV, first.signature, first.schedule, TARGET)
    profile.fail(Profile.key(CONV, choice, routine_digest(first.routine, built)), "gives a wrong result")
    found = KnownTimes(record.recorded, profile).of(CONV, choice, TARGET)
    assert found is not None and (found.ns, found.note) == (ns, note)


def test_a_reference_is_the_same_whatever_formats_are_written() -> None:
    reference = Choice("gru.reference", Signature.parse("f32:chf,->f32:chf"))
    assert is_same(Measured("gru.reference", "f32:chf,f32:chf>f32:chf", {}, 1.0), reference)
    assert not is_same(Measured("lstm.reference", "f32:chf,->f32:chf", {}, 1.0), reference)


# ---- layers


def test_every_layer_and_adapt_has_an_explanation(bench: Bench) -> None:
    session = session_of(bench)
    shapes = session.plan.provenance.shapes
    found = explanations(session, shapes)
    assert list(found) == [placed.name for placed in session.linked(shapes).program.placed] == layer_names(session, shapes)
    for name, explanation in found.items():
        assert name in explanation.layers and explanation.chosen is not None


def test_equal_layers_share_their_explanation(bench: Bench) -> None:
    session = session_of(bench)
    found = explanations(session, session.plan.provenance.shapes)
    for explanation in found.values():
        assert all(found[layer] is explanation for layer in explanation.layers)


def test_of_an_adapt_only_its_own_conversion_is_listed(bench: Bench) -> None:
    session = session_of(bench)
    found = explanations(session, session.plan.provenance.shapes)
    adapts = [explanation for name, explanation in found.items() if name.startswith("adapt ")]
    assert adapts and all(len({row.formats for row in adapt.candidates}) == 1 for adapt in adapts)


def test_records_of_another_instruction_set_do_not_count(bench: Bench) -> None:
    def foreign(plan: Plan) -> Plan:
        return replace(plan, provenance=replace(plan.provenance, target="elsewhere", measured=record))

    shapes = softneuro.Plan.load(bench.plan).provenance.shapes
    conv = next(e for e in explanations(session_of(bench), shapes).values() if e.problem.startswith("conv("))
    record = measured(Problem.parse(conv.problem), lambda i: 5.0)
    found = explanations(session_of(bench, foreign), shapes)
    assert all(row.ns is None for row in found[conv.layers[0]].candidates)


# ---- names


@pytest.mark.parametrize(("pattern", "expected"), [
    ("conv1", ["conv1"]), ("conv*", ["conv1", "conv2"]), ("c?nv2", ["conv2"]), ("a[0]", ["a[0]"]),
    ("*", ["conv1", "conv2", "a[0]"]),
])  # fmt: skip
def test_names_and_patterns(pattern: str, expected: list[str]) -> None:
    assert matching(["conv1", "conv2", "a[0]"], pattern) == expected


@pytest.mark.parametrize(("pattern", "hint"), [("CONV", "'conv1', 'conv2'"), ("cnv1", "'conv1'"), ("zzz", "one of 3 (all: '*')")])
def test_an_unknown_name_gets_suggestions(pattern: str, hint: str) -> None:
    with pytest.raises(InputError, match="is not in the plan") as caught:
        matching(["conv1", "conv2", "fc"], pattern)
    assert hint in str(caught.value)


# ---- reasons


def reason(session: Session, ns: Callable[[CandidateRow, bool], float], adapt_ns: float | None, spread: float = 0.0) -> str:
    """The reason for the first convolution when its candidates take ns(row, chosen) and adapts adapt_ns an element."""
    shapes = session.plan.provenance.shapes
    record: dict[str, Sequence[Measured]] = {}
    for found in explanations(session, shapes).values():
        of = found.candidates
        if not found.problem.startswith("adapt("):
            record[found.problem] = [Measured(r.routine, r.formats, r.schedule, ns(r, r.chosen), spread) for r in of]
    for placed in session.linked(shapes).program.placed:
        if placed.problem is not None and adapt_ns is not None:
            for type_ in (*placed.problem.inputs, *placed.problem.outputs):
                text = f"adapt() {type_} -> {type_} @1"
                if type_ is not None and text not in record:
                    size = type_.size
                    record[text] = measured(Problem.parse(text), lambda i, size=size: adapt_ns * size)[text]  # type: ignore[misc]
    layer = next(layer.name for layer in session.plan.graph.layers if layer.op.name == "conv")
    return explain(session, shapes, layer, KnownTimes(record)).reason


def made(**changes: object) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, provenance=replace(plan.provenance, **changes))  # type: ignore[arg-type]


def other_formats(row: CandidateRow, chosen: bool) -> float:
    """The chosen one is slower than all in other formats."""
    return 2000.0 if chosen else 3000.0 if row.formats.endswith(CHOSEN_OUTPUT) else 1000.0


CHOSEN_OUTPUT = "chl"


def test_no_reason_is_needed_for_the_fastest(bench: Bench) -> None:
    assert reason(session_of(bench), lambda row, chosen: 1.0 if chosen else 2.0, 10.0) == ""


def test_within_the_spread(bench: Bench) -> None:
    found = reason(session_of(bench), lambda row, chosen: 101.0 if chosen else 100.0, 10.0, spread=0.1)
    assert found.endswith("within the spread of the measurements, as good as the fastest")


def test_adapts_make_up_for_a_slower_candidate(bench: Bench) -> None:
    session = session_of(bench, made(kept="selected", predicted_ns=1.0))
    found = reason(session, other_formats, 1e3)
    assert found.startswith("chosen 0.0010 ms slower alone: saves adapts, as conv.")
    assert "would need " in found and " ms)" in found
    assert " ms)" not in reason(session, other_formats, None), "the times of the adapts are not known"


@pytest.mark.parametrize(("changes", "expected"), [
    ({"kept": "", "predicted_ns": None}, "it is the default routine, as nothing was measured"),
    ({"kept": "default", "predicted_ns": None}, "the plan of default routines was faster than the selected one"),
    ({"kept": "selected", "predicted_ns": 1.0}, "the times were others when the plan was made"),
])  # fmt: skip
def test_adapts_that_do_not_make_up_for_it(changes: dict[str, object], expected: str, bench: Bench) -> None:
    assert expected in reason(session_of(bench, made(**changes)), lambda row, chosen: 2e6 if chosen else 1e6, 0.0)


def test_the_fastest_was_not_to_be_chosen(bench: Bench) -> None:
    def ruled(plan: Plan) -> Plan:
        found = explanations(Session(plan), plan.provenance.shapes).values()
        record = {e.problem: [Measured(r.routine, r.formats, r.schedule, 1.0) for r in e.candidates if r.chosen] for e in found}
        return replace(plan, provenance=replace(plan.provenance, measured=record))

    assert "was not to be chosen when the plan was made" in reason(session_of(bench, ruled), other_formats, 1e3)


# ---- measuring


def test_only_what_is_not_known_is_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def fake(problem: Problem, choices: Sequence[Choice], *_: object) -> list[Measured]:
        asked.append((problem.op.name, len(choices)))
        return [Measured(c.routine, str(c.signature), c.schedule, 50.0) for c in choices]

    monkeypatch.setattr(why, "measure_untimed", fake)
    session = session_of(bench)
    shapes = session.plan.provenance.shapes
    layer = next(layer.name for layer in session.plan.graph.layers if layer.op.name == "matmul")
    (before,) = explain_each(session, shapes, [layer])
    first = before.candidates[0]
    known = KnownTimes({before.problem: [Measured(first.routine, first.formats, first.schedule, 60.0)]})
    told: list[tuple[int, int]] = []
    after = measure_missing(session, shapes, [layer, layer], known, lambda done, total, _: told.append((done, total)))
    assert asked[0] == ("matmul", len(before.candidates) - 1) and told == [(0, 1), (1, 1)]
    (found,) = explain_each(session, shapes, [layer], after)
    assert sorted(row.ns or 0 for row in found.candidates) == [50.0] * (len(before.candidates) - 1) + [60.0]


def test_candidates_are_measured_for_real() -> None:
    first, second = untimed(CONV, TARGET, KnownTimes())[:2]
    found = measure_untimed(CONV, [first, second], TARGET)
    assert [m.routine for m in found] == [first.routine, second.routine]
    assert all(m.ns is not None and m.ns > 0 and m.note == "" for m in found)


def test_the_reference_is_measured_where_there_is_nothing_else() -> None:
    found = answer(GRU, KnownTimes(), True)
    (row,) = found.candidates
    assert row.routine == "recurrent.reference" and row.ns is not None and row.ns > 0


def test_failures_become_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SoftneuroError("broken kernel")

    monkeypatch.setattr(why, "measure", fails)
    found = answer(CONV, KnownTimes(), True)
    assert {(row.ns, row.note) for row in found.candidates} == {(None, "broken kernel")}


def test_what_is_too_large_is_not_measured() -> None:
    huge = Problem.parse("view(shape=(65536, 65536)) f32[65536,65536] -> f32[65536,65536] @1")
    (note,) = {m.note for m in measure_untimed(huge, [Choice("view.reference", Signature.parse("f32:plain>f32:plain"))], TARGET)}
    assert note.startswith("not measured: takes 32768 MiB")


def test_an_explanation_without_candidates_has_no_chosen_one() -> None:
    assert Explanation("").chosen is None
