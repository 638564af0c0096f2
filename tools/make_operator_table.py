"""Write docs/operators.md: what every operator runs as, found by lowering onnx's node tests and our own examples.

    python tools/make_operator_table.py

Nothing is measured or compiled: the programs that sessions would run are looked at, layer by layer.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

import softneuro
from softneuro.codegen import target as targets
from softneuro.control import CONTROL_OPS
from softneuro.graph import Graph, Layer
from softneuro.importer.node import tensor_dtype
from softneuro.importer.table import CONVERTERS
from softneuro.plan.lower import lower
from softneuro.plan.program import HostStep, Placed, Program
from softneuro.routines.candidates import rejections
from softneuro.specialise import specialise
from softneuro.types import DType
from tests.conformance_cases import KINDS, RANDOM, UNSUPPORTED, cases_of, node_cases
from tests.operator_examples import examples

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
Operator = tuple[str, str]
"""Domain and operator type."""


@dataclass
class Seen:
    """What the programs of an operator's examples held.

    native, host: data types of the first input of the examples that ran so. ahead: likewise, when nothing was left to do in
    a run. parametric: whether compiled routines need some of its inputs to be constants.
    """

    versions: set[int] = field(default_factory=set)
    native: set[str] = field(default_factory=set)
    host: set[str] = field(default_factory=set)
    ahead: set[str] = field(default_factory=set)
    routines: set[str] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)
    parametric: bool = False


@dataclass(frozen=True)
class Example:
    """A model of one node, with the inputs to run it on."""

    model: onnx.ModelProto
    feeds: Mapping[str, Any]

    @property
    def node(self) -> onnx.NodeProto:
        """The one node."""
        return self.model.graph.node[0]

    @property
    def element(self) -> str:
        """The data type of the first input (without one, of the first output) in short."""
        type_ = [*self.model.graph.input, *self.model.graph.output][0].type
        if not type_.HasField("tensor_type"):
            return (type_.WhichOneof("value") or "any").removesuffix("_type")
        element = type_.tensor_type.elem_type
        dtype = tensor_dtype(element)
        return str(dtype) if dtype is not DType.OTHER else onnx.helper.tensor_dtype_to_np_dtype(element).name

    def with_constants(self) -> Example | None:
        """The example with all inputs but the first as constants, as weights, axes and sizes are in models; None where there
        is nothing to change."""
        first, *others = [info.name for info in self.model.graph.input] or [""]
        if not others or not all(isinstance(self.feeds.get(name), np.ndarray) for name in others):
            return None
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.input[1:]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(self.feeds[name], name) for name in others)
        return Example(model, {first: self.feeds[first]})


def all_examples() -> Iterator[Example]:
    """onnx's node tests of one node, then our own examples."""
    for case in node_cases().values():
        if len(case.model.graph.node) == 1:
            yield Example(case.model, case.data_sets[0].feeds)
    for model, feeds in examples():
        yield Example(model, feeds)


def lowered(example: Example) -> tuple[Graph, Program]:
    """The graph for these inputs, and the program that one thread would run."""
    plan = softneuro.tune(example.model, threads=1, effort=0)
    feeds = example.feeds
    shapes = {name: np.shape(feeds[name]) if isinstance(feeds[name], np.ndarray) else () for name in plan.graph.inputs}
    graph = specialise(plan.graph, shapes)
    return graph, lower(graph, plan.choices, targets.host(), 1, None)


def look(seen: Seen, example: Example) -> None:
    """Enter what one example runs as: as it stands, or with constants where that keeps it from the host."""
    seen.versions.add(_since(example.node, example.model))
    graph, program = lowered(example)
    on_host = _on_host(program)
    fixed = example.with_constants() if on_host else None
    if fixed is not None:
        other = lowered(fixed)
        if other[1].placed and not _on_host(other[1]):
            (graph, program), on_host, seen.parametric = other, [], True
    native = {placed.choice.routine for placed in program.placed if placed.steps and placed not in on_host}
    (seen.host if on_host else seen.native if native else seen.ahead).add(example.element)
    seen.routines |= {".".join(name.split(".")[:2]) for name in native if not name.startswith("adapt.")}
    layers = {layer.name: layer for layer in graph.layers}
    seen.reasons |= {_reason(placed, layers[placed.name], graph) for placed in on_host}


def _on_host(program: Program) -> list[Placed]:
    return [p for p in program.placed if any(isinstance(program.steps[index], HostStep) for index in p.steps)]


def _reason(placed: Placed, layer: Layer, graph: Graph) -> str:
    """Why a layer runs on the host."""
    if layer.op.name == "onnx_op":
        return "onnx's reference implementation"
    if layer.op.name in CONTROL_OPS:
        return "its body, interpreted"
    if placed.problem is not None:
        refused = list(rejections(placed.problem, targets.host()))
        return "a type or form that every routine refuses" if refused else "numpy"
    types = [graph.types[name] for name in (*layer.inputs, *layer.outputs) if name in graph.types]
    if any(type_.dtype in (DType.STR, DType.OTHER) for type_ in types):
        return "elements that are no numbers of a kernel"
    return "sizes that only the run tells"


def _since(node: onnx.NodeProto, model: onnx.ModelProto) -> int:
    """The version that defines the operator as this node uses it."""
    imports = {_domain(entry.domain): entry.version for entry in model.opset_import}
    version = imports.get(_domain(node.domain), 1)
    try:
        return int(onnx.defs.get_schema(node.op_type, version, node.domain).since_version)
    except onnx.defs.SchemaError:
        return version


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def observed() -> dict[Operator, Seen]:
    """What was seen of every operator that has examples."""
    found: dict[Operator, Seen] = defaultdict(Seen)
    for example in all_examples():
        look(found[_domain(example.node.domain), example.node.op_type], example)
    return found


@functools.cache
def _defined() -> dict[Operator, int]:
    """The first version of every operator that onnx defines."""
    found: dict[Operator, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        operator, since = (schema.domain, schema.name), int(schema.since_version)
        found[operator] = min(since, found.get(operator, since))
    return found


def row(operator: Operator, seen: Seen) -> str:
    """One line of the table."""
    since = _defined().get(operator, 1)
    checked = ", ".join(map(str, sorted(seen.versions))) or "-"
    cells = [f"`{operator[1]}`", str(since), checked, _types(seen.native), _types(seen.host), _notes(seen)]
    return f"| {' | '.join(cells)} |"


def _types(types: Iterable[str]) -> str:
    return " ".join(sorted(types)) or "-"


def _notes(seen: Seen) -> str:
    notes = [" ".join(f"`{name}`" for name in sorted(seen.routines))] if seen.routines else []
    if seen.ahead:
        notes.append("needs no work in a run" if not (seen.native or seen.host) else f"no work in a run: {_types(seen.ahead)}")
    if seen.parametric:
        notes.append("on the host where its weights, axes or sizes are no constants")
    notes += [f"host: {reason}" for reason in sorted(seen.reasons)]
    return "; ".join(notes) or "no example"


HEAD = """# Operators

<!-- Written by tools/make_operator_table.py: do not edit. -->

What runs as what, found by lowering the {nodes:,} node tests that come with onnx {onnx} and examples of other domains.
Of these tests {passed:,} pass with all their numbers, in the same way as a user's model runs: tuned, the plan saved, loaded
and run in a session; {random} more make random numbers, of which only types and shapes can be compared. Of the {models}
whole models that come with onnx {models_passed} pass. The others:

{unsupported}

*since*: the operator set version from which the operator is there; it and all later ones are read. *checked*: the versions of its
definition that the examples use. *native*: data types of the first input of the examples for which compiled routines do all
the work; *host*: of those for which a layer is computed in numpy between the compiled ones. An operator can be in both:
`softneuro profile --why` says for a layer which routines refuse it, and why. The notes name the routines, and what keeps the
others on the host.

Any other operator that onnx's reference implementation knows runs on the host as well; `tune` names the layer and the operator
when nothing implements it.
"""


def page(found: Mapping[Operator, Seen]) -> str:
    """The whole page."""
    unsupported = "\n".join(f"* `{name}`: {reason}" for name, reason in UNSUPPORTED.items())
    whole = [name for kind in KINDS for name in cases_of(kind)]
    nodes = node_cases()
    parts = [HEAD.format(
        nodes=len(nodes), onnx=onnx.__version__, passed=len(set(nodes) - set(RANDOM) - set(UNSUPPORTED)), random=len(RANDOM),
        models=len(whole), models_passed=len(set(whole) - set(UNSUPPORTED)), unsupported=unsupported,
    )]  # fmt: skip
    operators = set(found) | set(CONVERTERS)
    for domain in sorted({domain for domain, _ in operators}):
        rows = [row(operator, found.get(operator, Seen())) for operator in sorted(operators) if operator[0] == domain]
        parts.append("\n".join([f"## {domain or 'ai.onnx'}", "", _COLUMNS, *rows, ""]))
    return "\n".join(parts)


_COLUMNS = """| operator | since | checked | native | host | notes |
|---|---|---|---|---|---|"""


def main() -> None:
    """Write the page."""
    warnings.simplefilter("ignore")
    text = page(observed())
    PAGE.write_text(text, encoding="utf-8")
    print(f"docs/{PAGE.name}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
