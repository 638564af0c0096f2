"""What a step of a plan costs beside its work: many trivial layers, one after another.

python tools/bench_steps.py [--layers 200] [--threads 1,2]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import softneuro

CHANNELS = 8


def chain(layers: int) -> onnx.ModelProto:
    """1x1 convolutions of a single pixel, which no pass can join."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(layers):
        values = (rng.standard_normal((CHANNELS, CHANNELS, 1, 1)) / CHANNELS**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        nodes.append(helper.make_node("Conv", [f"t{i}", f"w{i}"], [f"t{i + 1}"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, CHANNELS, 1, 1]) for name in ("t0", f"t{layers}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def microseconds(plan: softneuro.Plan, threads: int, repeat: int = 2000) -> tuple[float, float]:
    """Median and minimum microseconds of one inference."""
    binding = softneuro.Session(plan, threads).bind({"t0": np.ones((1, CHANNELS, 1, 1), np.float32)})
    times = []
    for _ in range(repeat):
        start = time.perf_counter_ns()
        binding.run()
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / 1e3, min(times) / 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=200, metavar="N", help="number of layers (default 200)")
    parser.add_argument("--threads", default="1,2", metavar="N,…", help="numbers of threads (default 1,2)")
    options = parser.parse_args()
    plan = softneuro.tune(chain(options.layers), threads=1, time_limit=0)
    for threads in map(int, options.threads.split(",")):
        median, least = microseconds(plan, threads)
        print(f"{threads} threads: median {median:.1f} us, minimum {least:.1f} us; a step "
              f"{median / options.layers:.3f} us, at least {least / options.layers:.3f} us")


if __name__ == "__main__":
    main()
