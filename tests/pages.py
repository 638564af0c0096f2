"""Reading the pages of the documentation: their code, their command lines, and files that stand for what they name."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import softneuro

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def first_code_blocks(text: str, count: int) -> list[str]:
    """The first blocks of code, indented or fenced."""
    blocks = re.findall(r"^(?:(?:    [^\n]*\n)+|```\w*\n.*?^```$)", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^    |^```\w*\n|```$", "", block, flags=re.MULTILINE).strip() for block in blocks[:count]]


def python_blocks(text: str) -> list[tuple[str, str | None]]:
    """Each fenced block of Python, and the block of text that follows it, which is what it prints."""
    return [
        (code, printed or None)
        for code, printed in re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL)
    ]


def shell_lines(text: str) -> list[str]:
    """The ``softneuro …`` lines of indented blocks, and of fenced ones after a prompt; without comments and pipes."""
    found, fenced = [], False
    for line in re.sub(r" *\\\n *", " ", text).splitlines():
        fenced ^= line.startswith("```")
        match = re.match(r"\$ (softneuro .*)" if fenced else r"    ((?:python -m )?softneuro .*)", line)
        if match:
            found.append(re.split(r" +# | \| | > ", match[1])[0])
    return found


def run_python(code: str) -> str:
    """Run a block in a namespace of its own; returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def write_substitutes(folder: Path) -> None:
    """Small files under the names that the pages use: a model, its plan, an array, a picture."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (8, 3, 3, 3)), ("m", (8, 10)))
    ]
    nodes = [
        helper.make_node("Conv", ["input", "w"], ["c"], "conv1", strides=[4, 4]),
        helper.make_node("Relu", ["c"], ["r"], "relu1"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "mean"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "m"], ["output"], "classes"),
    ]
    inputs = [helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, ["N", 3, 224, 224])]
    outputs = [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, ["N", 10])]
    graph = helper.make_graph(nodes, "substitute", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    softneuro.tune(folder / "model.onnx", threads=1, time_limit=0).save(folder / "model.plan")
    np.save(folder / "picture.npy", rng.standard_normal((1, 3, 224, 224)).astype(np.float32))
