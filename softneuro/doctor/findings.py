"""What a diagnosis means for whoever wants to tune and run here: findings, each with advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from softneuro.doctor.diagnosis import NEEDED, Diagnosis

__all__ = ["Finding", "findings"]

_GIB = 1 << 30
_NOISY = 0.05
_BUSY_CPUS = 0.5
_LEAST_SCALING = 0.75
_SLOW_GOVERNORS = ("powersave", "ondemand", "conservative")


@dataclass(frozen=True)
class Finding:
    """level: ``error`` (softneuro cannot work), ``warning`` (results or times suffer), or ``note``."""

    level: str
    text: str
    advice: str


def findings(found: Diagnosis) -> tuple[Finding, ...]:
    """The findings, errors first, then warnings."""
    order = ("error", "warning", "note")
    every = (*_installation(found), *_processor(found), *_allowance(found), *_quiet(found))
    return tuple(sorted(every, key=lambda finding: order.index(finding.level)))


def _installation(found: Diagnosis) -> Iterator[Finding]:
    missing = [name for name in NEEDED if found.versions.get(name) is None]
    if missing:
        advice = f"install softneuro again: pip install {' '.join(missing)}"
        yield Finding("error", f"{', '.join(missing)} cannot be found", advice)
    if not found.check.ok:
        yield Finding("error", f"the self-check failed: {found.check.problem}",
                      "install softneuro in a fresh environment, or report what doctor --json prints")  # fmt: skip
    if not found.cache.writable:
        yield Finding("warning", f"cache folder {found.cache.folder} cannot be written: every process compiles its kernels",
                      "make it writable, or set SOFTNEURO_CACHE to a folder that is")  # fmt: skip


def _processor(found: Diagnosis) -> Iterator[Finding]:
    if found.target == "sse4":
        yield Finding("warning", "this processor has no AVX2 and FMA: kernels work on 128 bits at once, and are slow",
                      "in a virtual machine, let it pass through the host's processor (-cpu host)")  # fmt: skip
    if found.machine.virtual:
        yield Finding("note", "this is a virtual machine: its neighbours can change the times that are measured",
                      "tune when it is quiet, and tune again when its times look odd")  # fmt: skip
    if found.machine.governor in _SLOW_GOVERNORS:
        yield Finding("note", f"the frequency governor is {found.machine.governor}: clocks rise only after some work",
                      "choose performance while tuning and measuring: cpupower frequency-set -g performance")  # fmt: skip


def _allowance(found: Diagnosis) -> Iterator[Finding]:
    machine = found.machine
    quota = machine.quota
    if quota is not None and quota < machine.allowed:
        yield Finding("warning", f"the cgroup grants {quota:g} CPUs, less than the {machine.allowed} threads used by default: "
                      "they are stopped again and again", f"give --threads {max(1, int(quota))}, or a larger quota")  # fmt: skip
    elif quota is not None and quota < machine.affinity:
        yield Finding("note", f"the cgroup grants {quota:g} of {machine.affinity} CPUs: {machine.allowed} threads by default",
                      "a larger quota makes more threads worth while")  # fmt: skip
    if machine.affinity < machine.cpus:
        yield Finding("note", f"this process may run on {machine.affinity} of {machine.cpus} CPUs",
                      "see taskset or the container's CPU set when that is not meant")  # fmt: skip
    if machine.smt and machine.allowed > found.cpu.cores:
        yield Finding("note", f"{machine.allowed} threads share {found.cpu.cores} cores (SMT)",
                      f"try --threads {found.cpu.cores}: two threads of a core share its arithmetic")  # fmt: skip
    free = min((n for n in (machine.memory_available, machine.memory_limit) if n is not None), default=None)
    if free is not None and free < _GIB:
        yield Finding("warning", f"only {free / _GIB:.1f} GiB of memory can be used",
                      "end other programs before tuning large models")  # fmt: skip


def _quiet(found: Diagnosis) -> Iterator[Finding]:
    load = found.machine.load
    if load is not None and load >= _BUSY_CPUS:
        yield Finding("warning", f"the machine is busy: {load:.1f} CPUs in use over the last minute, of {found.machine.cpus}",
                      "tune and measure when nothing else runs; times of a busy machine lead to wrong choices")  # fmt: skip
    if found.noise is not None and found.noise.percentile_90 > _NOISY:
        longer = 100 * found.noise.percentile_90
        yield Finding("warning", f"times are noisy: one in ten runs of the same work takes {longer:.0f}% longer, or more",
                      "end other programs, or give fewer threads than there are CPUs (--threads)")  # fmt: skip
    if len(found.peaks) > 1:
        one, every = found.peaks[0], found.peaks[-1]
        scaling = every.gflops / one.gflops
        if scaling < _LEAST_SCALING * every.threads:
            yield Finding("warning", f"{every.threads} threads compute only {scaling:.1f} times as fast as one",
                          "other programs, a CPU quota or shared cores take their part: try fewer threads")  # fmt: skip
