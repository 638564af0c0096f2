"""Threads of sessions: idle, crowded, forked, interrupted, failing, dropped; and the same bits from any number of them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from graphs import conv_chain, feeds_for, plan_of
from oracle import runnable_targets

from softneuro import reference
from softneuro.codegen.compile import assembly
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target, host
from softneuro.errors import InputError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.pointwise import Pointwise
from softneuro.plan.plan import Choice, Plan, Provenance
from softneuro.plan.program import HostStep
from softneuro.routines.routine import Signature
from softneuro.runtime import Session, context, link
from softneuro.runtime.link import NativeSegment
from softneuro.runtime.team import waiting_words
from softneuro.types import DType

TESTS = Path(__file__).parent
SHAPES = {"t0": (1, 8, 6, 5)}
CROWDED, SYSCALL = 0, 2


def sessions_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("softneuro-")]


def in_a_process(code: str) -> str:
    """What a program prints, run with the tests' modules at hand; a process that hangs fails the test."""
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def shared_words() -> Iterator[np.ndarray]:
    words = waiting_words()
    before = words.copy()
    yield words
    words[...] = before


# the same results however threads wait, and however many there are ---------------------------------------------------


@pytest.mark.parametrize("threads", [2, 3, 7, 19])
@pytest.mark.parametrize(("word", "value"), [(CROWDED, 0), (CROWDED, 1 << 40), (SYSCALL, 0)],
                         ids=["look_first", "sleep_at_once", "without_futex"])
def test_every_way_of_waiting_gives_the_same_bits(shared_words: np.ndarray, word: int, value: int, threads: int) -> None:
    graph = conv_chain()
    feeds = feeds_for(graph)
    expected = Session(plan_of(graph), 1).run(feeds)["t3"]
    session = Session(plan_of(graph), threads)
    shared_words[word] = value
    for _ in range(20):
        np.testing.assert_array_equal(session.run(feeds)["t3"], expected)


def test_a_yield_that_takes_long_lets_waits_sleep_for_a_while(shared_words: np.ndarray) -> None:
    graph = conv_chain()
    session = Session(plan_of(graph), 3)
    shared_words[CROWDED] = 5
    for _ in range(50):
        session.run(feeds_for(graph))
    assert 0 <= shared_words[CROWDED] <= 256


def test_two_sessions_and_eight_callers_at_once() -> None:
    graph = conv_chain()
    pair = [Session(plan_of(graph), 2) for _ in range(2)]
    feeds = [feeds_for(graph, seed=seed) for seed in range(8)]
    expected = [pair[0].run(each)["t3"] for each in feeds]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = pool.map(lambda i: pair[i % 2].run(feeds[i])["t3"], range(8))
            for got, want in zip(found, expected, strict=True):
                np.testing.assert_array_equal(got, want)


def test_affinity_that_shrinks_after_creation() -> None:
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("needs affinity")
    printed = in_a_process("""
import os
import numpy as np
from graphs import conv_chain, feeds_for, plan_of
from softneuro.runtime import Session
graph = conv_chain()
feeds = feeds_for(graph)
session = Session(plan_of(graph), 4)
expected = session.run(feeds)["t3"]
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(all(np.array_equal(session.run(feeds)["t3"], expected) for _ in range(200)))
print(Session(plan_of(graph, threads=8)).threads)
""")
    assert printed.split() == ["True", "1"]


# idle, dropped ------------------------------------------------------------------------------------------------------


def test_an_idle_session_costs_no_processor_time() -> None:
    """Most of what is measured is the sleeping interpreter; four spinning workers would take up to 400 ms each."""
    printed = in_a_process("""
import time
from graphs import conv_chain, feeds_for, plan_of
from softneuro.runtime import Session
graph = conv_chain()
session = Session(plan_of(graph), 5)
feeds = feeds_for(graph)
session.run(feeds)
found = []
for _ in range(3):
    session.run(feeds)
    before = time.process_time_ns()
    time.sleep(0.4)
    found.append(time.process_time_ns() - before)
print(min(found))
""")
    assert int(printed) < 5_000_000


def standing(thread: int) -> tuple[str, ...]:
    """State of a thread of this process, its ticks of processor time, and how often it went to sleep."""
    folder = Path(f"/proc/self/task/{thread}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    switches = [line for line in (folder / "status").read_text().splitlines() if line.startswith("voluntary_ctxt_switches")]
    return (fields[0], *fields[11:13], *switches)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("count", [1, 20])
def test_workers_are_parked_after_a_run(count: int) -> None:
    """Asleep for ten looks without having run or woken once: a worker that spins, yields or looks up now and then never is."""
    gc.collect()
    before = set(sessions_threads())
    session = Session(plan_of(conv_chain()), 4)
    for _ in range(count):
        session.run(feeds_for(conv_chain()))
    workers = [thread.native_id for thread in set(sessions_threads()) - before if thread.native_id]
    assert len(workers) == 3
    seen: list[list[tuple[str, ...]]] = []
    for _ in range(1000):
        seen.append([standing(worker) for worker in workers])
        if len(seen) >= 10 and all(look == seen[-1] for look in seen[-10:]) and {state for state, *_ in seen[-1]} == {"S"}:
            break
        time.sleep(0.02)
    else:
        pytest.fail(f"workers are not parked: {seen[-10:]}")
    feeds = feeds_for(conv_chain())
    np.testing.assert_array_equal(session.run(feeds)["t3"], Session(session.plan, 1).run(feeds)["t3"])


def test_threads_end_with_their_session() -> None:
    gc.collect()
    before = set(sessions_threads())
    session = Session(plan_of(conv_chain()), 3)
    session.run(feeds_for(conv_chain()))
    started = set(sessions_threads()) - before
    assert len(started) == 2
    del session
    gc.collect()
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()


def test_sessions_that_come_and_go_leave_nothing() -> None:
    printed = in_a_process("""
import gc, threading
from graphs import conv_chain, feeds_for, plan_of
from softneuro.runtime import Session

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def many(count):
    for _ in range(count):
        Session(plan, 3).run(feeds)
    gc.collect()

graph = conv_chain(channels=64)
plan, feeds = plan_of(graph), feeds_for(graph)
many(20)
before = resident()
many(100)
for thread in threading.enumerate():
    if thread.name.startswith("softneuro-"):
        thread.join(60)
print(threading.active_count(), resident() - before)
""") if Path("/proc/self/statm").exists() else "1 0"
    threads, grown = map(int, printed.split())
    assert threads == 1
    assert grown < 16 << 20  # the packed weights of 100 sessions are 50 MB


# fork ---------------------------------------------------------------------------------------------------------------

FORKED = """
import os, threading, warnings
import numpy as np
from graphs import conv_chain, feeds_for, plan_of
from softneuro.runtime import Session
warnings.simplefilter("ignore", DeprecationWarning)
graph = conv_chain()
feeds = feeds_for(graph)
session = Session(plan_of(graph), 3)
expected = session.run(feeds)["t3"]

def right():
    return all(np.array_equal(session.run(feeds)["t3"], expected) for _ in range(10))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("code", [
    """
child = os.fork()
if child == 0:
    os._exit(0 if right() else 1)
print(right(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
    """
session._team._lock.acquire()  # as if another thread were in a run
child = os.fork()
if child == 0:
    os._exit(0 if right() else 1)
session._team._lock.release()
print(right(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
    """
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.apply(right), pool.apply(right)
print(all(found) and right(), 0)
""",
    """
child = os.fork()
if child == 0:
    if os.fork() == 0:
        os._exit(0 if right() else 1)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]) or (0 if right() else 1))
print(right(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
], ids=["child_and_parent", "during_a_run", "multiprocessing", "grandchild"])  # fmt: skip
def test_fork_after_creation(code: str) -> None:
    assert in_a_process(FORKED + code).split() == ["True", "0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_finds_every_lock_free() -> None:
    assert in_a_process(FORKED + """
from softneuro.runtime import forks
held = list(forks._locks)
for lock in held:
    lock.acquire()  # as if other threads were in each
child = os.fork()
if child == 0:
    os._exit(0 if right() and Session(plan_of(graph), 3).run(feeds) else 1)
for lock in held:
    lock.release()
print(len(held) >= 4 and right(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""").split() == ["True", "0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_another_thread_that_compiles(tmp_path: Path) -> None:
    printed = in_a_process(f"""
import os
os.environ["SOFTNEURO_CACHE"] = {str(tmp_path)!r}
""" + FORKED + """
from softneuro.codegen import compile as compiling, jit
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import host
inside, onward = threading.Event(), threading.Event()
whole = compiling.compile_kernel

def slow(spec, target, name):
    inside.set()
    onward.wait(60)
    return whole(spec, target, name)

compiling.compile_kernel = slow
lead = KernelSpec.of("team", role="lead")
jit._addresses.pop(jit.symbol(lead, host()))
for path in jit.cache_folder().glob("sn_team_*"):
    path.unlink()
thread = threading.Thread(target=jit.address, args=(lead, host()))
thread.start()
inside.wait(60)
threading.Timer(0.1, onward.set).start()  # the fork cannot be before it
child = os.fork()
if child == 0:
    compiling.compile_kernel = whole
    compiled = jit.symbol(lead, host()) in jit._addresses
    os._exit(0 if compiled and right() and jit.address(KernelSpec.of("team", role="worker"), host()) else 1)
thread.join()
print(right(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert printed.split() == ["True", "0"]


# interrupts and failures --------------------------------------------------------------------------------------------


def test_long_runs_return_to_python_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = conv_chain(length=4)
    feeds = feeds_for(graph)
    whole = Session(plan_of(graph), 2)
    assert sum(isinstance(s, NativeSegment) for s in whole.linked(SHAPES).segments) == 1
    monkeypatch.setattr(link, "_MOST_WORK", 1)
    divided = Session(plan_of(graph), 2)
    segments = divided.linked(SHAPES).segments
    assert [s.count for s in segments if isinstance(s, NativeSegment)] == [1] * len(segments)
    assert len(segments) >= 4
    np.testing.assert_array_equal(divided.run(feeds)["t4"], whole.run(feeds)["t4"])
    assert [n for n, _ in divided.profile(feeds, repeat=2)] == [n for n, _ in whole.profile(feeds, repeat=2)]


def test_layers_of_billions_of_products_are_segments_of_their_own() -> None:
    graph = conv_chain(length=3, channels=64, height="h")
    segments = Session(plan_of(graph), 1).linked({"t0": (1, 64, 20000, 5)}).segments
    counts = [s.count for s in segments if isinstance(s, NativeSegment)]
    assert len(counts) >= 2


@pytest.mark.parametrize("threads", [1, 2])
def test_keyboard_interrupt_ends_a_loop_of_runs(threads: int) -> None:
    graph = conv_chain()
    feeds = feeds_for(graph)
    session = Session(plan_of(graph), threads)
    expected = session.run(feeds)["t3"]
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            session.run(feeds)
    timer.join()
    np.testing.assert_array_equal(session.run(feeds)["t3"], expected)


def mixed_plan() -> Plan:
    """A native layer, one on the host, a native layer."""
    def layer(name: str, program: str, source: str, result: str) -> Layer:
        return Layer(name, Pointwise(program), (source,), (result,))

    layers = (layer("first", "mul(x0,2.0)", "x", "a"), layer("host", "exp(x0)", "a", "b"), layer("last", "add(x0,1.0)", "b", "y"))
    graph = Graph({"x": GraphInput(DType.F32, (5, 9))}, ("y",), layers, {})
    choice = Choice("pointwise.reference", Signature.parse("f32:plain>f32:plain"))
    return Plan(graph, {"host": choice}, Provenance(shapes={"x": (5, 9)}))


@pytest.mark.parametrize("error", [InputError("layer 'host': it fails"), KeyboardInterrupt(), MemoryError()], ids=type)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_failing_host_step_leaves_the_session_usable(monkeypatch: pytest.MonkeyPatch, threads: int,
                                                       error: BaseException) -> None:
    plan = mixed_plan()
    feeds = {"x": np.full((5, 9), 0.125, np.float32)}
    session = Session(plan, threads)
    assert any(isinstance(s, HostStep) for s in session.linked({"x": (5, 9)}).segments)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(context, "run_layer", fail)
        for _ in range(3):
            with pytest.raises(type(error)):
                session.run(feeds)
    np.testing.assert_allclose(session.run(feeds)["y"], reference.run(plan.graph, feeds)["y"], rtol=1e-6)


# denormal numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_denormals_are_kept_unless_the_session_flushes_them(threads: int) -> None:
    graph = Graph({"x": GraphInput(DType.F32, (64,))}, ("y",), (Layer("half", Pointwise("mul(x0,0.5)"), ("x",), ("y",)),), {})
    feeds = {"x": np.array([1.0, 1e-38, 1e-40, 2.0**-126] * 16, np.float32)}
    kept = Session(plan_of(graph), threads).run(feeds)["y"]
    flushing = Session(plan_of(graph), threads, flush_denormals=True)
    flushed = flushing.run(feeds)["y"]
    np.testing.assert_array_equal(kept, feeds["x"] * np.float32(0.5))
    np.testing.assert_array_equal(flushed, np.array([0.5, 0.0, 0.0, 0.0] * 16, np.float32))
    flushing.profile(feeds, repeat=2)
    assert feeds["x"][2] * np.float32(0.5) > 0  # the caller's own mode is as it was
    np.testing.assert_array_equal(Session(plan_of(graph), threads).run(feeds)["y"], kept)


@pytest.mark.skipif(not host().triple.startswith("x86_64"), reason="an x86-64 instruction")
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_the_mode_is_set_and_restored_only_where_wanted(target: Target) -> None:
    code = {flush: assembly(KernelSpec.of("runner", timed=False, flush=flush), target) for flush in (False, True)}
    assert {flush: text.count("ldmxcsr") for flush, text in code.items()} == {False: 0, True: 2}
