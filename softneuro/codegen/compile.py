"""Compile a kernel function to a stand-alone object file: numba makes the LLVM module, LLVM the code.

Numba is used as a front end only. Its module is taken before numba's own code generation, everything but one
exported wrapper is made internal, and LLVM's pipeline runs for the target asked for, which need not be this
machine. The object has no undefined symbols.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

import llvmlite.binding as llvm
from numba.core import compiler, types
from numba.core.registry import cpu_target

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.errors import CompileError

__all__ = ["assembly", "compile_kernel"]

_SIGNATURE = (types.int64, types.int64, types.int64)
_ATTRIBUTES = re.compile(r'"(target-cpu|target-features|tune-cpu|probe-stack|no-stack-arg-probe)"(="[^"]*")?')
_TRIPLE = re.compile(r"^target (triple|datalayout) = .*$", re.MULTILINE)


def _numba_module(function: Callable[[int, int, int], None]) -> tuple[str, str]:
    """The LLVM text of a function of three int64 and the mangled name of its entry."""
    flags = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.nrt = False
    result = compiler.compile_extra(cpu_target.typing_context, cpu_target.target_context, function, _SIGNATURE,
                                    types.none, flags, {})
    library = result.library
    module = library._final_module
    for linked in library._linking_libraries:
        module.link_in(linked._get_module_for_linking(), preserve=True)
    return str(module), result.fndesc.llvm_func_name


def _wrapper(name: str, entry: str) -> str:
    """An exported C function around numba's calling convention (return slot and exception slot are ignored)."""
    return f"""
define void @{name}(i64 %args, i64 %tid, i64 %n) {{
  %ret = alloca ptr
  %exc = alloca ptr
  %status = call i32 @{entry}(ptr %ret, ptr %exc, i64 %args, i64 %tid, i64 %n)
  ret void
}}
"""


def _machine(target: Target) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if not target.triple.startswith("x86_64"):
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


def _optimised(spec: KernelSpec, target: Target, name: str) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    factory = importlib.import_module(f"softneuro.codegen.kernels.{spec.module}")
    try:
        text, entry = _numba_module(factory.make(target, **dict(spec.literals)))
    except Exception as error:  # numba raises many types, each with a long text that names the line
        raise CompileError(f"kernel {spec}: numba could not compile it for {target.name}: {error}") from error
    text = _TRIPLE.sub("", _ATTRIBUTES.sub("", text)) + _wrapper(name, entry)
    machine = _machine(target)
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration or "NumbaEnv" in variable.name:
            variable.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    undefined = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if undefined:
        raise CompileError(f"kernel {spec}: it calls {undefined[0]!r}, and kernels may call nothing outside")
    return module, machine


def compile_kernel(spec: KernelSpec, target: Target, name: str) -> bytes:
    """The object file of ``spec`` for ``target``, exporting ``name``.

    Raises CompileError when numba or LLVM refuse it or it would call outside functions.
    """
    module, machine = _optimised(spec, target, name)
    return bytes(machine.emit_object(module))


def assembly(spec: KernelSpec, target: Target) -> str:
    """The assembly text of a kernel, to read what limits it."""
    module, machine = _optimised(spec, target, "kernel")
    return str(machine.emit_assembly(module))
