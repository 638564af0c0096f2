"""Kernels: the only package that imports numba and llvmlite (numba only when something must be compiled)."""
