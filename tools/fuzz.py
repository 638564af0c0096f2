"""Fuzz the readers of models, plans and profiles: mutated files must end in a result or in a `SoftneuroError`.

    python tools/fuzz.py model 0 200000 --findings folder

Case number n of a kind is the same file in every run. Each batch runs in a process of its own whose address space is
limited; anything but a result or a SoftneuroError is a finding: another exception, the death of the process, more than
5 seconds of processor time, or more memory than the limits allow.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from fuzz_mutations import MUTATIONS  # noqa: E402

from softneuro.errors import SoftneuroError  # noqa: E402
from softneuro.limits import ResourceLimits, enforced  # noqa: E402

LIMITS = ResourceLimits(tensor_bytes=1 << 26, weight_bytes=1 << 27, memory=1 << 28, iterations=1000, nodes=20_000)
SECONDS = 5.0
_SPARE_BYTES = 3 << 29  # address space beyond what the process has when it begins
_WALL_SECONDS = 60.0
_BATCH = 2000
_REWRITE_EVERY = 10  # cases
_RUN_EVERY = 200
_LARGEST_SEED = 4_000  # bytes


class TookTooLong(BaseException):
    """No Exception, so that no handler of the program takes it for one of its own."""


@dataclass(frozen=True)
class Finding:
    """What went wrong with a case. place: the innermost lines of the program, by which findings are told apart."""

    kind: str
    number: int
    place: str
    text: str


def seeds(kind: str) -> list[bytes]:
    """The files that are mutated."""
    return {"model": _models, "plan": _plans, "profile": _profiles}[kind]()


def _models() -> list[bytes]:
    import onnx.backend.test.case.node as node_cases

    from softneuro.demo import model_path

    found = {case.name: case.model.SerializeToString() for case in node_cases.collect_testcases(None) if case.model is not None}
    small = [data for name, data in sorted(found.items()) if len(data) <= _LARGEST_SEED]
    return [*small, model_path().read_bytes()]


def _plans() -> list[bytes]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from softneuro.demo import model_path
    from softneuro.tuning.tune import tune

    rng = np.random.default_rng(0)

    def net(nodes: list[onnx.NodeProto], x: list[int | str], **weights: tuple[int, ...]) -> bytes:
        constants = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "net", [info("x", 1, x)], [info("y", 1, None)], constants)
        return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())

    node = helper.make_node
    branch = [helper.make_graph([node(op, ["x"], ["b"])], op, [], [helper.make_tensor_value_info("b", 1, None)])
              for op in ("Relu", "Neg")]  # fmt: skip
    models = [
        model_path().read_bytes(),
        net([node("Conv", ["x", "w", "b"], ["t"], pads=[1, 1, 1, 1]), node("Relu", ["t"], ["u"]),
             node("MaxPool", ["u"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], [1, 3, 8, 8], w=(8, 3, 3, 3), b=(8,)),
        net([node("ConvTranspose", ["x", "w"], ["t"], strides=[2, 2]), node("Sigmoid", ["t"], ["y"])], ["n", 4, 5, 5],
            w=(4, 3, 2, 2)),
        net([node("MatMul", ["x", "w"], ["t"]), node("Add", ["t", "b"], ["u"]), node("Softmax", ["u"], ["y"])], ["n", 6],
            w=(6, 9), b=(9,)),
        net([node("LayerNormalization", ["x", "s", "b"], ["t"]), node("Transpose", ["t"], ["u"], perm=[0, 2, 1]),
             node("ReduceMean", ["u"], ["v"], axes=[1]), node("TopK", ["v", "k"], ["y", "i"])], [2, 5, 8],
            s=(8,), b=(8,), k=(1,)),
        net([node("ReduceSum", ["x"], ["s"], keepdims=0), node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
             node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])], [2, 3]),
        net([node("Resize", ["x", "", "s"], ["t"], mode="linear"), node("Relu", ["t"], ["u"]),
             node("DepthToSpace", ["u"], ["y"], blocksize=2)], [1, 8, 4, 4], s=(4,)),
    ]  # fmt: skip
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            try:
                plan = tune(model, effort=0, threads=1)
            except SoftneuroError:
                continue
            plan.save(Path(folder) / "seed.plan")
            found.append((Path(folder) / "seed.plan").read_bytes())
    return found


def _profiles() -> list[bytes]:
    record = {"key": "relu f32[1] -> f32[1] @1 | pointwise.f32.any f32:plain>f32:plain nv=2 | 0123456789abcdef",
              "machine": "some machine avx2", "ns": 1234.5, "spread": 0.01}  # fmt: skip
    lines = [json.dumps({**record, "ns": 100.0 + i}) for i in range(4)]
    return ["\n".join(lines).encode() + b"\n", "\n".join(lines).encode(), b"", b"\n", b'{"key"']


def case(kind: str, number: int, files: list[bytes]) -> bytes:
    """The file of a case."""
    rng = Random(f"{kind} {number}")
    return MUTATIONS[kind](rng.choice(files), rng, rng.choice(files))


def check(kind: str, number: int, data: bytes, folder: Path) -> str:
    """Read a file, and run some of what is read; how it ended. Raises whatever the program raises but SoftneuroError."""
    try:
        with enforced(LIMITS):
            return {"model": _check_model, "plan": _check_plan, "profile": _check_profile}[kind](number, data, folder)
    except SoftneuroError as error:
        text = str(error)
        assert "\n" not in text, f"not one line: {text}"
        return type(error).__name__


def _check_model(number: int, data: bytes, folder: Path) -> str:
    from softneuro.importer.model import import_model
    from softneuro.passes.pipeline import optimise
    from softneuro.tuning.tune import tune

    if number % _RUN_EVERY == 0:
        return _run(tune(data, effort=0, threads=1, limits=LIMITS))
    graph = import_model(data)
    if number % _REWRITE_EVERY == 0:
        optimise(graph)
        return "rewritten"
    return "read"


def _check_plan(number: int, data: bytes, folder: Path) -> str:
    from softneuro.plan.plan import Plan

    path = folder / "case.plan"
    path.write_bytes(data)
    plan = Plan.load(path)
    return _run(plan) if number % _RUN_EVERY == 0 else "read"


def _run(plan: Any) -> str:
    from softneuro.runtime.session import Session

    session = Session(plan, 1, limits=LIMITS)
    shapes = {n: [d if isinstance(d, int) else 2 for d in i.shape or ()] for n, i in plan.graph.inputs.items()}
    if any(not 0 <= int(np.prod([float(d) for d in s])) <= 1 << 20 for s in shapes.values()):
        return "read"
    feeds = {n: np.ones(shapes[n], i.dtype.numpy) for n, i in plan.graph.inputs.items()}
    session.run(feeds)
    return "run"


def _check_profile(number: int, data: bytes, folder: Path) -> str:
    from softneuro.codegen import target
    from softneuro.tuning.profile import Measurement, Profile

    path = folder / "case.jsonl"
    path.write_bytes(data)
    profile = Profile(target.host(), path)
    if number % 10 == 0:
        profile.add("key", Measurement(1.0))
        profile.close()
        again = Profile(target.host(), path)
        assert again.get("key") == Measurement(1.0)
    return "read"


def guarded(kind: str, number: int, data: bytes, folder: Path, ends: collections.Counter[str]) -> Finding | None:
    """`check` with a limit of processor time; what was found."""
    began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        ends[check(kind, number, data, folder)] += 1
    except BaseException as error:  # a finding, whatever it is
        signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/softneuro/" in f.filename] or [None]  # type: ignore[list-item]
        last = frames[-1]
        place = f"{type(error).__name__} {Path(last.filename).name}:{last.name}" if last else type(error).__name__
        return Finding(kind, number, place, " ".join(f"{error}".split())[:300])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began
    if grown * 1024 > 2 * LIMITS.memory:
        return Finding(kind, number, "memory", f"{grown // 1024} MiB more than before")
    return None


def _too_long(signum: int, frame: Any) -> None:
    raise TookTooLong


def _worker(kind: str, first: int, last: int, files: list[bytes], pipe: int) -> None:
    """Run cases, writing the number of each before it begins, findings, and in the end how the cases ended."""
    signal.signal(signal.SIGPROF, _too_long)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _SPARE_BYTES, used + _SPARE_BYTES))
    ends: collections.Counter[str] = collections.Counter()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, os.fdopen(pipe, "w") as out:
        for number in range(first, last):
            out.write(f"{number}\n")
            out.flush()
            finding = guarded(kind, number, case(kind, number, files), Path(folder), ends)
            if finding is not None:
                out.write(json.dumps([finding.place, finding.text]) + "\n")
        out.write(json.dumps(ends) + "\n")


class _Run:
    """Batches one after the other."""

    def __init__(self, kind: str, folder: Path | None) -> None:
        import softneuro.tuning.tuner  # noqa: F401 (once, before the processes part)

        self.kind, self.folder = kind, folder
        self.files = seeds(kind)
        self.found: dict[str, list[Finding]] = {}
        self.ends: collections.Counter[str] = collections.Counter()
        self.cases = 0

    def batch(self, first: int, last: int) -> int:
        """Run cases; the number of the first that was not run."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                _worker(self.kind, first, last, self.files, write)
            except BaseException:  # as MemoryError
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(write)
        at, finished = self._follow(read, child, first)
        status = os.waitpid(child, 0)[1]
        self.cases += at - first + 1
        if not finished:
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            place = "killed after a minute" if killed else f"died with status {status}"
            self.note(Finding(self.kind, at, place, ""))
        return at + 1

    def _follow(self, read: int, child: int, first: int) -> tuple[int, bool]:
        import select

        at, rest = first, b""
        while True:
            if not select.select([read], [], [], _WALL_SECONDS)[0]:
                os.kill(child, signal.SIGKILL)
            piece = os.read(read, 1 << 16)
            if not piece:
                os.close(read)
                return at, False
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                value = json.loads(line)
                if isinstance(value, int):
                    at = value
                elif isinstance(value, list):
                    self.note(Finding(self.kind, at, *value))
                else:
                    self.ends.update(value)
                    os.close(read)
                    return at, True

    def note(self, finding: Finding) -> None:
        """Keep a finding, and its file when it is the first of its place."""
        known = self.found.setdefault(finding.place, [])
        known.append(finding)
        if len(known) == 1:
            print(f"{finding.kind} {finding.number}: {finding.place}: {finding.text}", flush=True)
            if self.folder is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / f"{finding.kind}-{finding.number}").write_bytes(case(self.kind, finding.number, self.files))


def main() -> int:
    """Run the cases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=MUTATIONS)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--findings", type=Path, help="a folder for the files")
    options = parser.parse_args()
    run, number, began = _Run(options.kind, options.findings), options.first, time.monotonic()
    while number < options.last:
        number = run.batch(number, min(number + _BATCH, options.last))
        if number % 20_000 < _BATCH:
            print(f"{number}: {time.monotonic() - began:.0f} s, {dict(run.ends)}", flush=True)
    print(f"{run.cases} files in {time.monotonic() - began:.0f} s: {dict(run.ends)}")
    for place, findings in sorted(run.found.items()):
        print(f"{len(findings):6d} x {place}: {findings[0].number}: {findings[0].text}")
    return 1 if run.found else 0


if __name__ == "__main__":
    sys.exit(main())
