"""Errors that softneuro raises on purpose. Each message is one sentence: what, where, found, needed."""

from __future__ import annotations

__all__ = [
    "CompileError",
    "DynamicShape",
    "InputError",
    "ModelError",
    "NotInstalled",
    "PlanError",
    "ProfileError",
    "ResourceLimitError",
    "SoftneuroError",
    "UnsupportedOp",
]


class SoftneuroError(Exception):
    """Base of every error below; catching it catches all that softneuro raises on purpose."""


class ModelError(SoftneuroError):
    """The ONNX model is damaged, inconsistent or leaves its folder."""


class UnsupportedOp(ModelError):
    """The model uses an operator that neither a layer class nor the ONNX reference implements."""


class InputError(SoftneuroError, ValueError):
    """An input's name, shape or data type is not what the model needs."""


class DynamicShape(InputError):
    """A shape depends on the data of the run, so it cannot be known before."""


class PlanError(SoftneuroError):
    """The plan file is damaged, foreign, or newer than this version reads."""


class ProfileError(SoftneuroError):
    """The profile file cannot be read or belongs to something else."""


class ResourceLimitError(SoftneuroError):
    """A size in a model or plan is above what is allowed."""


class CompileError(SoftneuroError):
    """A kernel could not be compiled for the target."""


class NotInstalled(SoftneuroError):
    """An optional package is needed and not installed; the message names the extra that brings it."""
