"""One engine with one model in a process of its own, driven over pipes by bench_models.

Standard input holds one JSON object a line, standard output one answer a line. The first line is the job:
{"engine", "model" (the plan for softneuro), "threads", "feeds" (a .npz file)}, answered with the nanoseconds of import,
load and first run, and the peak memory so far. Then {"run": seconds} is answered with the nanoseconds of each run.
The end of input ends the process.
"""
from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that the checkout's package is found

Run = Callable[[], object]
Feeds = Mapping[str, Any]


def import_softneuro() -> str:
    import softneuro
    import softneuro.runtime

    return softneuro.__version__


def load_softneuro(model: str, threads: int, feeds: Feeds) -> Run:
    from softneuro.runtime import Session

    session = Session(model, threads)
    return lambda: session.run(None, feeds)


def import_onnxruntime() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def load_onnxruntime(model: str, threads: int, feeds: Feeds) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def import_openvino() -> str:
    import openvino

    return str(openvino.__version__)


def load_openvino(model: str, threads: int, feeds: Feeds) -> Run:
    import openvino

    core = openvino.Core()
    network = core.read_model(model)
    network.reshape({name: list(array.shape) for name, array in feeds.items()})
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                "PERFORMANCE_HINT": "LATENCY"}  # fmt: skip
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)


ENGINES: Mapping[str, tuple[Callable[[], str], Callable[[str, int, Feeds], Run]]] = {
    "softneuro": (import_softneuro, load_softneuro),
    "onnxruntime": (import_onnxruntime, load_onnxruntime),
    "openvino": (import_openvino, load_openvino),
}
"""Engine → how to import it (gives its version) and how to load a model (gives a function that runs it once)."""


def peak_bytes() -> int:
    """The most memory this program had: Linux counts that of the parent into ru_maxrss, so its own mark goes first."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10


def timed(action: Callable[[], Any]) -> tuple[Any, int]:
    """What the action gives, and its nanoseconds."""
    start = time.perf_counter_ns()
    result = action()
    return result, time.perf_counter_ns() - start


def times_for(run: Run, seconds: float) -> list[int]:
    """Nanoseconds of each run until the time is up, at least one; a first run that warms up does not count."""
    run()
    times: list[int] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while not times or time.perf_counter_ns() < end:
        times.append(timed(run)[1])
    return times


def main() -> int:
    answers, sys.stdout = sys.stdout, sys.stderr  # what an engine prints must not mix with the answers
    job = json.loads(sys.stdin.readline())
    bring, load = ENGINES[job["engine"]]
    version, import_ns = timed(bring)
    import numpy as np

    with np.load(job["feeds"]) as file:
        feeds = {name: file[name] for name in file.files}
    run, load_ns = timed(lambda: load(job["model"], job["threads"], feeds))
    _, first_ns = timed(run)
    answer: Any = {"version": version, "import_ns": import_ns, "load_ns": load_ns, "first_ns": first_ns}
    print(json.dumps(answer | {"peak_bytes": peak_bytes()}), file=answers, flush=True)
    for line in sys.stdin:
        times = times_for(run, json.loads(line)["run"])
        print(json.dumps({"times": times, "peak_bytes": peak_bytes()}), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
