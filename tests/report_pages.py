"""Graphs with host layers, and reports of small graphs with made-up candidates, for the tests of timelines and reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx
from graphs import conv_chain, feeds_for, plan_of

from softneuro.graph import Graph, Layer
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.pointwise import Pointwise
from softneuro.report.explanation import CandidateRow, Explanation, Refused
from softneuro.report.page import html_page
from softneuro.report.rows import layer_rows
from softneuro.runtime import Session

__all__ = ["HOSTILE", "chain_with_hosts", "explained", "hostile_page", "page_of", "residual_graph"]

HOSTILE = (
    "<img src=x onerror=\"window.hacked = 1\">",
    "</script><script>window.hacked = 1</script>",
    "\"quotes' & <!-- ünï 层 \u2028 \U0001f600 {{data}}",
)
"""Names that a page which trusts them would run or stumble over."""


def chain_with_hosts(hosts: Collection[str]) -> Graph:
    """conv_chain(3), the named layers being norms that only onnx's reference computes."""
    graph = conv_chain()
    norm = OnnxOp(onnx.helper.make_node("LpNormalization", ["x"], ["y"], axis=1).SerializeToString(), (("", 17),))
    layers = [replace(layer, op=norm, inputs=layer.inputs[:1]) if layer.name in hosts else layer for layer in graph.layers]
    return graph.with_layers(layers, graph.constants)


def residual_graph() -> Graph:
    """x, two convolutions, and their outputs added."""
    chain = conv_chain(2)
    first, second = chain.layers
    layers = (
        replace(first, name="first", inputs=("x", "w0")), replace(second, name="second"),
        Layer("sum", Pointwise("add(x0,x1)"), ("t1", "t2"), ("y",)),
    )  # fmt: skip
    return Graph({"x": chain.inputs["t0"]}, ("y",), layers, chain.constants)


def explained(graph: Graph) -> dict[str, Explanation]:
    """For each layer: a fast, a tied and a failed candidate, the second of them chosen, and a refusal."""
    return {
        layer.name: Explanation(
            f"problem of {layer.name}", (layer.name,),
            (
                CandidateRow("conv.fast.f32.chl", "f32:chl,->f32:chl", {"mr": 6, "nv": 4}, 40_000.0, 0.08),
                CandidateRow("conv.tied.f32.chf", "f32:chf,->f32:chf", {"mr": 14}, 41_000.0, 0.05, chosen=True, tied=True),
                CandidateRow("conv.slow.f32.chf", "f32:chf,->f32:chf", {}, 95_000.0, 0.01),
                CandidateRow("conv.failed.f32.chl", "f32:chl,->f32:chl", {}, None, note="wrong numbers"),
            ),
            (Refused("conv.winograd23.f32.chl", "found strides 2x2, needed 1x1"),),
            reason="The tied one needs no adapt.",
        )
        for layer in graph.layers
    }  # fmt: skip


def page_of(graph: Graph | None = None, *, threads: int = 2, model: str = "net.onnx",
            explanations: Mapping[str, Explanation] | None = None) -> str:
    """The report of a graph (default: the residual one) with default routines."""
    graph = residual_graph() if graph is None else graph
    plan = plan_of(graph, threads)
    made = replace(plan.provenance, model=model, machine="a machine", predicted_ns=9e4, measured_ns=1e5, default_ns=2e5)
    session, feeds = Session(replace(plan, provenance=made), threads), feeds_for(graph)
    known = explained(graph) if explanations is None else explanations
    return html_page(session, feeds, layer_rows(session, feeds, 3), known, session.trace(feeds, 3))


def hostile_page() -> str:
    """A report in which every text that a model or routine gives is hostile."""
    chain = conv_chain(3)
    tensors = {f"t{i}": f"{name} tensor" for i, name in enumerate(("<b>", *HOSTILE))}
    layers = tuple(
        replace(layer, name=name, inputs=tuple(tensors.get(t, t) for t in layer.inputs), outputs=(tensors[layer.outputs[0]],))
        for layer, name in zip(chain.layers, HOSTILE, strict=True)
    )
    graph = Graph({tensors["t0"]: chain.inputs["t0"]}, (tensors["t3"],), layers, chain.constants)
    bad = HOSTILE[1]
    known = {
        name: Explanation(bad, (bad,), (CandidateRow(bad, bad, {bad: 1}, 5.0, note=bad, chosen=True),), (Refused(bad, bad),), bad)
        for name in HOSTILE
    }
    return page_of(graph, model=HOSTILE[0], explanations=known)
