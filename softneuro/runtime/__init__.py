"""Loaded plans, ready to run. Loads neither onnx nor, when the object cache has every kernel, numba."""

from softneuro.runtime.session import Binding, Session, TensorInfo

__all__ = ["Binding", "Session", "TensorInfo"]
