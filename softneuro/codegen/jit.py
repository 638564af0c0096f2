"""From a kernel's name and literals to its machine address, through an object cache of our own.

A kernel is described by a `KernelSpec`: the module under `softneuro.codegen.kernels` whose ``make(target,
**literals)`` returns a Python function ``kernel(args, tid, nthreads)`` of three int64, and the literals. The
machine code of a spec is an object file in the cache folder, found by a key of everything that shaped it:
sources, literals, target, compiler versions. With a warm cache only llvmlite is loaded; numba is imported when
something must be compiled.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from importlib import metadata
from pathlib import Path

import llvmlite.binding as llvm

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target

__all__ = ["address", "cache_folder", "is_cached", "object_code", "source_digest", "symbol"]

_HERE = Path(__file__).parent
_DIGEST_BYTES = 32
_MEANINGS = ("types.py", "ops/epilogue.py", "ops/pointwise.py", "ops/pointwise_opcodes.py")
"""Files outside of this package that kernels are made with."""


def cache_folder() -> Path:
    """Where objects are kept: $SOFTNEURO_CACHE, else the user's cache folder."""
    root = os.environ.get("SOFTNEURO_CACHE")
    if root:
        return Path(root) / "objects"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "softneuro" / "objects"


@functools.cache
def _shared_digest() -> str:
    """Digest of the code that every kernel passes through, and of the compilers' versions."""
    digest = hashlib.sha256()
    for path in (*sorted(_HERE.glob("*.py")), *(_HERE.parent / name for name in _MEANINGS)):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    for package in ("numba", "llvmlite"):
        digest.update(metadata.version(package).encode())
    return digest.hexdigest()


@functools.cache
def source_digest(module: str) -> str:
    """Digest of one kernel module's source and of the shared code it is made with (16 hex digits)."""
    source = (_HERE / "kernels" / f"{module}.py").read_bytes()
    return hashlib.sha256(_shared_digest().encode() + source).hexdigest()[:16]


@functools.cache
def symbol(spec: KernelSpec, target: Target) -> str:
    """The name of the kernel's one exported function, which is also its cache key."""
    text = "\n".join((source_digest(spec.module), str(spec), repr(target)))
    return f"sn_{spec.module}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _read(path: Path) -> bytes | None:
    """The object in a cache file, or None when it is absent or its digest does not match."""
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    code = blob[_DIGEST_BYTES:]
    return code if code and hashlib.sha256(code).digest() == blob[:_DIGEST_BYTES] else None


def _write(path: Path, code: bytes) -> None:
    """Write a cache file whole or not at all; a folder that cannot be written costs only the next compilation."""
    scratch = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(hashlib.sha256(code).digest() + code)
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)


def is_cached(spec: KernelSpec, target: Target) -> bool:
    """Whether the kernel is loaded already or lies in the cache folder."""
    name = symbol(spec, target)
    return name in _addresses or (cache_folder() / f"{name}.o").exists()


def object_code(spec: KernelSpec, target: Target) -> bytes:
    """The object file of a kernel, from the cache or compiled now.

    Raises CompileError when the kernel cannot be compiled for this target.
    """
    path = cache_folder() / f"{symbol(spec, target)}.o"
    code = _read(path)
    if code is None:
        from softneuro.codegen.compile import compile_kernel

        code = compile_kernel(spec, target, symbol(spec, target))
        _write(path, code)
    return code


_lock = threading.RLock()
_addresses: dict[str, int] = {}


@functools.cache
def _engine() -> llvm.ExecutionEngine:
    """The process's one loader of objects; llvmlite keeps the code alive as long as the engine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def address(spec: KernelSpec, target: Target) -> int:
    """The address of the kernel in this process: a C function ``void (int64 args, int64 tid, int64 nthreads)``."""
    name = symbol(spec, target)
    known = _addresses.get(name)
    if known is not None:
        return known
    with _lock:
        if name not in _addresses:
            engine = _engine()
            engine.add_object_file(llvm.ObjectFileRef.from_data(object_code(spec, target)))
            engine.finalize_object()
            _addresses[name] = engine.get_function_address(name)
        return _addresses[name]
