"""Rules for what layers may run with: how they are read, what they leave, and what is said when they do not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softneuro.errors import InputError
from softneuro.plan.plan import Choice
from softneuro.routines.routine import Signature
from softneuro.routines.table import ROUTINES
from softneuro.tuning.restrict import parse_rule, restrict


def choice(routine: str, formats: str, **schedule: int) -> Choice:
    return Choice(routine, Signature.parse(formats), schedule)


CHL, CHF = "f32:chl,->f32:chl", "f32:chf,->f32:chf"
IGEMM, IGEMM8 = choice("conv.igemm.f32.chl", CHL, mr=6), choice("conv.igemm.f32.chl", CHL, mr=8)
WINO23, WINO43 = choice("conv.winograd23.f32.chl", CHL), choice("conv.winograd43.f32.chl", CHL)
DIRECT, FIRST = choice("conv.direct.f32.chf", CHF), choice("conv.first.f32.chf_chl", "f32:chf,->f32:chl")
GATHER = choice("gather.rows.any.chf", "f32:plain,i64:plain>f32:plain")
POOL_CHL, POOL_CHF = choice("pool.window.f32.chl", "f32:chl>f32:chl"), choice("pool.window.f32.chf", "f32:chf>f32:chf")
OFFERS = {
    "stem.conv": (FIRST, DIRECT, IGEMM),
    "conv1": (WINO23, IGEMM, IGEMM8, WINO43, DIRECT),
    "pool1": (POOL_CHL, POOL_CHF),
    "conv2": (IGEMM, DIRECT),
    "/block/0/conv,3": (WINO43, IGEMM),
    "lookup": (GATHER,),
}
LAYERS = ["stem.conv", "conv1", "loop", "pool1", "conv2", "/block/0/conv,3", "lookup"]
CONVS = ["stem.conv", "conv1", "conv2", "/block/0/conv,3"]


def left(*rules: str) -> dict[str, tuple[Choice, ...]]:
    return restrict([parse_rule(rule) for rule in rules], OFFERS, LAYERS)


def changed(*rules: str) -> dict[str, tuple[Choice, ...]]:
    """The layers that the rules leave less to."""
    return {name: choices for name, choices in left(*rules).items() if choices != OFFERS[name]}


@pytest.mark.parametrize(("text", "matching"), [
    ("f32:chl/winograd", [WINO23, WINO43]),
    ("f32:chl/winograd43", [WINO43]),
    ("winograd", [WINO23, WINO43]),
    ("wino*23", [WINO23]),
    ("*/igemm", [IGEMM, IGEMM8]),
    ("/igemm", [IGEMM, IGEMM8]),
    ("chl/igemm", [IGEMM, IGEMM8]),
    ("f32/direct", [DIRECT]),
    (":chf", [DIRECT, FIRST, POOL_CHF]),
    ("chf", [DIRECT, FIRST, POOL_CHF]),
    ("chl", [IGEMM, IGEMM8, WINO23, WINO43, FIRST, POOL_CHL]),
    ("i64", [GATHER]),
    ("i64:", [GATHER]),
    ("i64:plain", [GATHER]),
    ("f32:plain/rows", [GATHER]),
    ("qint8", []),
    ("conv.igemm.f32.chl", [IGEMM, IGEMM8]),
    ("conv.*.chl", [IGEMM, IGEMM8, WINO23, WINO43]),
    ("*", [IGEMM, IGEMM8, WINO23, WINO43, DIRECT, FIRST, GATHER, POOL_CHL, POOL_CHF]),
    (" f32 ", [IGEMM, IGEMM8, WINO23, WINO43, DIRECT, FIRST, GATHER, POOL_CHL, POOL_CHF]),
])  # fmt: skip
def test_what_a_descriptor_matches(text: str, matching: list[Choice]) -> None:
    every = [choice for name in OFFERS for choice in OFFERS[name]]
    rule = parse_rule(text)
    assert not rule.forbids and rule.layers is None
    assert [c for c in every if rule.matches(c)] == [c for c in every if c in matching]


@pytest.mark.parametrize(("text", "message"), [
    ("", "needed [!][dtype][:layout][/algorithm][@layers]"),
    ("!", "needed [!]"),
    ("@conv1", "needed [!]"),
    ("f32@", "needed [!]"),
    ("f32@  ", "needed [!]"),
    ("f32:chl:chf", "found more than dtype:layout/algorithm"),
    ("f32/igemm/direct", "found more than"),
    ("winogard", "'winogard' is no data type or layout or algorithm, did you mean 'winograd'"),
    ("f23:chl/igemm", "'f23' is no data type, did you mean"),
    ("f32:chx/igemm", "'chx' is no layout, did you mean"),
    ("f32:chl/igem", "'igem' is no algorithm, did you mean 'igemm'"),
    ("!f32:chl/zzz", "'zzz' is no algorithm, needed alias, batched"),
    ("conv.igem.f32.chl", "'conv.igem.f32.chl' is no routine, did you mean 'conv.igemm.f32.chl'"),
    ("x*", "'x*' is no data type or layout or algorithm"),
])  # fmt: skip
def test_rules_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rule(text)
    assert message in str(caught.value) and repr(text) in str(caught.value)


def test_every_routine_is_matched_by_its_name_and_its_algorithm() -> None:
    for routine in (routine for routines in ROUTINES.values() for routine in routines):
        candidate = choice(routine.name, CHL)
        for text in (routine.name, routine.name.split(".")[1], f"*/{routine.name.split('.')[1]}", "f32:chl"):
            assert parse_rule(text).matches(candidate)


@pytest.mark.parametrize(("rules", "expected"), [
    ([], {}),
    (["winograd"], {"conv1": (WINO23, WINO43), "/block/0/conv,3": (WINO43,)}),
    (["f32:chl/winograd@conv1"], {"conv1": (WINO23, WINO43)}),
    (["igemm@conv1..conv2"], {"conv1": (IGEMM, IGEMM8), "conv2": (IGEMM,)}),
    (["igemm@conv2..conv2"], {"conv2": (IGEMM,)}),
    (["igemm@stem*"], {"stem.conv": (IGEMM,)}),
    (["direct@stem.conv,conv2"], {"stem.conv": (DIRECT,), "conv2": (DIRECT,)}),
    (["direct@stem.conv , conv2,"], {"stem.conv": (DIRECT,), "conv2": (DIRECT,)}),
    (["igemm@/block/0/conv,3"], {"/block/0/conv,3": (IGEMM,)}),
    (["igemm@*"], {"stem.conv": (IGEMM,), "conv1": (IGEMM, IGEMM8), "conv2": (IGEMM,), "/block/0/conv,3": (IGEMM,)}),
    (["winograd23@conv1", "direct@conv1"], {"conv1": (WINO23, DIRECT)}),
    (["chl", "direct@conv2"], {"stem.conv": (FIRST, IGEMM), "conv1": (WINO23, IGEMM, IGEMM8, WINO43), "pool1": (POOL_CHL,)}),
    (["!winograd"], {"conv1": (IGEMM, IGEMM8, DIRECT), "/block/0/conv,3": (IGEMM,)}),
    (["!winograd@conv1"], {"conv1": (IGEMM, IGEMM8, DIRECT)}),
    (["!winograd23", "winograd"], {"conv1": (WINO43,), "/block/0/conv,3": (WINO43,)}),
    (["!qint8"], {}),
    (["!winograd@pool1"], {}),
    (["!chf@conv1..conv2", "!igemm@conv1"], {"conv1": (WINO23, WINO43), "pool1": (POOL_CHL,), "conv2": (IGEMM,)}),
], ids=[
    "nothing", "pin_everywhere", "pin_a_layer", "pin_a_range_with_layers_that_cannot", "range_of_one", "pin_by_wildcard",
    "two_layers", "spaces_and_a_comma_too_many", "layer_name_with_a_comma", "all_layers_by_wildcard", "two_pins_are_a_union",
    "pin_everywhere_and_in_a_layer", "forbid_everywhere", "forbid_in_a_layer", "forbid_goes_after_pins", "forbid_nothing",
    "forbid_what_a_layer_has_not", "forbid_in_a_range",
])  # fmt: skip
def test_what_is_left(rules: list[str], expected: dict[str, tuple[Choice, ...]]) -> None:
    assert changed(*rules) == expected


@pytest.mark.parametrize(("rules", "message"), [
    (["qint8"], "none of 6 layers has such a routine, they offer conv.direct.f32.chf"),
    (["winograd@conv2"], "layer 'conv2' has no such routine, it offers conv.direct.f32.chf, conv.igemm.f32.chl"),
    (["winograd@conv1,conv2"], "layer 'conv2' has no such routine"),
    (["winograd@pool1..conv2"], "none of 2 layers has such a routine, they offer conv.direct"),
    (["igemm@loop"], "layer 'loop' runs on the host"),
    (["!igemm@loop"], "layer 'loop' runs on the host"),
    (["igemm@conv9"], "no layer is called 'conv9', did you mean 'conv2' or 'conv1'"),
    (["igemm@zzz"], "no layer is called 'zzz', needed stem.conv, conv1, loop, pool1, conv2, /block/0/conv,3 … (7 in all)"),
    (["igemm@block"], "no layer is called 'block', did you mean '/block/0/conv,3'"),
    (["igemm@con1..conv2"], "no layer is called 'con1', did you mean 'conv1'"),
    (["igemm@conv1..conv9"], "no layer is called 'conv9'"),
    (["igemm@conv2..conv1"], "layer 'conv1' comes before 'conv2', needed first..last"),
    (["igemm@dec*"], "no layer is called 'dec*'"),
    (["!f32:plain/rows"], "nothing is left to layer 'lookup', which offers gather.rows.any.chf"),
    (["winograd@conv1", "!winograd"], "nothing is left to layer 'conv1', which offers conv.direct"),
    (["!igemm@conv2", "!direct@conv2"], "routine '!direct@conv2': nothing is left to layer 'conv2'"),
], ids=lambda value: "+".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_rules_that_do_not_fit(rules: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        left(*rules)
    assert message in str(caught.value)


ALGORITHMS = st.sampled_from(["winograd", "winograd23", "igemm", "direct", "first", "window", "rows", "chl", "chf", "f32", "*"])
SCOPES = st.sampled_from(["", "@conv1", "@conv*", "@conv1..conv2", "@stem.conv,pool1", "@*"])
RULES = st.lists(st.tuples(st.sampled_from(["", "!"]), ALGORITHMS, SCOPES).map("".join), max_size=4)


@given(rules=RULES, order=st.randoms())
def test_any_rules(rules: list[str], order: object) -> None:
    """What is left keeps its order, is never empty, obeys every forbid, and does not depend on the rules' order."""
    try:
        found = left(*rules)
    except InputError:
        return
    for name, choices in found.items():
        assert choices and [c for c in OFFERS[name] if c in choices] == list(choices)
    for rule in map(parse_rule, rules):
        if rule.forbids and rule.layers in (None, "*"):
            assert not any(rule.matches(c) for choices in found.values() for c in choices)
    shuffled = list(rules)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert left(*shuffled) == found
