"""The name of a compiled kernel: a module under `softneuro.codegen.kernels` and the literals of its ``make``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KernelSpec"]

Literal = int | float | str | bool


@dataclass(frozen=True)
class KernelSpec:
    """Names one compiled variant: a module under ``codegen.kernels`` and the literals of its ``make``."""

    module: str
    literals: tuple[tuple[str, Literal], ...] = ()

    @classmethod
    def of(cls, module: str, **literals: Literal) -> KernelSpec:
        """A spec with its literals in a fixed order."""
        return cls(module, tuple(sorted(literals.items())))

    def __str__(self) -> str:
        return f"{self.module}({', '.join(f'{k}={v!r}' for k, v in self.literals)})"
