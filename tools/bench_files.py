"""Time one net in several forms beside each other: a plan, and files that other engines made of it by their own tools.

    python tools/bench_files.py --shape 1x3x224x224 --threads 1 softneuro=net.plan onnxruntime=net.int8.onnx \\
        openvino:bf16=net.onnx openvino:int8=net.int8.xml

Each is a process of its own, and they run in turns on the same random input. openvino takes a precision (f32 by default;
int8 is what the file itself says). Prints medians, minima, and the ratio of the best other engine to each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

import numpy as np

from softneuro.bench.tables import markdown


def _softneuro(path: str, precision: str, threads: int, x: Any) -> Callable[[], object]:
    import softneuro

    session = softneuro.Session(path, threads)
    return session.bind({session.inputs[0].name: x}).run


def _onnxruntime(path: str, precision: str, threads: int, x: Any) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feeds)


def _openvino(path: str, precision: str, threads: int, x: Any) -> Callable[[], object]:
    import openvino

    core = openvino.Core()
    network = core.read_model(path)
    network.reshape({network.inputs[0].any_name: list(x.shape)})
    hint = "bf16" if precision == "bf16" else "f32"
    settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                "PERFORMANCE_HINT": "LATENCY"}  # fmt: skip
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x))
    return request.infer


ENGINES = {"softneuro": _softneuro, "onnxruntime": _onnxruntime, "openvino": _openvino}


def work(name: str, path: str, threads: int, shape: list[int]) -> None:
    """A process's side: for each number of seconds that is read, run that long and print the times."""
    engine, _, precision = name.partition(":")
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    run = ENGINES[engine](path, precision, threads, x)
    for _ in range(5):
        run()
    print("ready", flush=True)
    for line in sys.stdin:
        end, times = time.perf_counter() + float(line), []
        while time.perf_counter() < end:
            start = time.perf_counter_ns()
            run()
            times.append(time.perf_counter_ns() - start)
        print(json.dumps(times), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="+", metavar="ENGINE[:PRECISION]=FILE")
    parser.add_argument("--shape", default="1x3x224x224")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    pairs = [form.partition("=")[::2] for form in options.forms]
    if options.work:
        work(*pairs[0], options.threads, [int(size) for size in options.shape.split("x")])
        return
    common = ["--work", "--threads", str(options.threads), "--shape", options.shape]
    commands = {name: [sys.executable, __file__, *common, f"{name}={path}"] for name, path in pairs}
    running = {n: subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n, c in commands.items()}
    times: dict[str, list[int]] = {name: [] for name in running}
    for name, process in running.items():
        if process.stdout.readline().strip() != "ready":  # type: ignore[union-attr]
            sys.exit(f"{name} could not run its file")
    for _ in range(options.rounds):
        for name, process in running.items():
            print(options.seconds, file=process.stdin, flush=True)
            times[name] += json.loads(process.stdout.readline())  # type: ignore[union-attr]
    for process in running.values():
        process.communicate()
    medians = {name: statistics.median(of_name) / 1e6 for name, of_name in times.items()}
    minima = {name: min(of_name) / 1e6 for name, of_name in times.items()}
    others = [name for name in times if not name.startswith("softneuro")] or list(times)
    best, least = min(medians[name] for name in others), min(minima[name] for name in others)
    rows = [[n, f"{medians[n]:.3f}", f"{minima[n]:.3f}", f"{best / medians[n]:.2f}/{least / minima[n]:.2f}"] for n in times]
    print(markdown(("form", "median ms", "minimum ms", "best other/this"), rows, left=1))


if __name__ == "__main__":
    main()
