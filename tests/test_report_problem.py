"""Problem texts as people type them: right ones are read, all others are refused in one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softneuro.errors import InputError
from softneuro.report.known_times import KnownTimes
from softneuro.report.problem_reading import FORM, read_problem
from softneuro.report.why import answer

PARTS = (
    "conv(", "matmul(", "gather(axis=0)", "concat(axis=9)", "softmax(axis='x')", "strides=", "pads=", "(1, 1)", "(1, 1, 1, 1)",
    " ", "f32[1,64,56,56]", "*f32[64,64,3,3]", "f32[]", "bool[0]", "str[1]", "->", " -> ", "@1", " @1", "-", "None", "-1", ")",
    "1e400", "epilogue='relu'", "{", "[", "é", "\0", "lambda: 0",
)  # fmt: skip


@pytest.mark.parametrize("text", [FORM, f"  {FORM}\n", FORM.replace(" ->", "\n   ->")])
def test_the_form_is_read(text: str) -> None:
    assert read_problem(text).key() == FORM


@pytest.mark.parametrize(("text", "message"), [
    ("", "needed op"),
    ("conv", "needed op"),
    ("nothing", "found the op 'nothing'"),
    ("matmull() f32[1,2] *f32[2,1] -> f32[1,1] @1", "found the op 'matmull', needed matmul"),
    ("conv() f32[1] -> f32[1] @1", "missing 3 required positional arguments"),
    ("conv(1) f32[1] -> f32[1] @1", "needed a form like conv"),
    (FORM.replace("(1, 1, 1, 1)", "'a'"), "found pads='a', needed tuple[int, ...]"),
    (FORM.replace("*f32[64,64,3,3] ", ""), "the op does not fit its inputs"),
    (FORM.replace("*f32[64,64,3,3]", "-"), "the op does not fit its inputs"),
    (FORM.replace("@1", "@9999"), "found 9999 threads, needed 1 to 1024"),
    (FORM.replace("@1", ""), "needed op"),
    (FORM.replace("1,64,56,56", "1,64,56000000,56000000"), "elements"),
    (FORM.replace("-> f32[1,64,56,56]", "-> f32[1,64,56,56] f32[1]"), "needed f32[1,64,56,56]"),
    (FORM.replace("epilogue", "").replace("dilations=(1, 1)", "dilations=(1, 1), epilogue='reluu'"), "reluu"),
])  # fmt: skip
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^problem: ") as caught:
        read_problem(text)
    assert message in str(caught.value) and FORM in str(caught.value)


def only_input_errors(text: str) -> None:
    try:
        problem = read_problem(text)
    except InputError:
        return
    assert read_problem(problem.key()) == problem
    answer(problem, KnownTimes(), False)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=14).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    only_input_errors(text)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FORM)), st.integers(0, len(FORM)), st.sampled_from(PARTS))
def test_any_change_of_a_right_text_is_read_or_refused(here: int, there: int, part: str) -> None:
    first, last = sorted((here, there))
    only_input_errors(FORM[:first] + part + FORM[last:])
