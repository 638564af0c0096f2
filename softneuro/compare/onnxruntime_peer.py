"""onnxruntime as the other side of a comparison: its outputs, and any tensor inside its graph."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softneuro.compare.input_sizes import replace_input_sizes
from softneuro.errors import InputError, NotInstalled
from softneuro.types import Array, admits

if TYPE_CHECKING:
    import onnx

    from softneuro.runtime.session import Session

__all__ = ["onnxruntime_session", "onnxruntime_tensors", "run_onnxruntime", "run_session"]

_DATA_FOLDER = "session.model_external_initializers_file_folder_path"


def onnxruntime_session(model: Path, feeds: Mapping[str, Array], threads: int, outputs: Sequence[str] | None = None) -> Any:
    """An onnxruntime session for the shapes of the feeds; declared input sizes that differ are replaced.

    outputs: tensors of the graph to give out in place of the model's outputs. onnxruntime then fuses only what these
    leave alone. Raises NotInstalled without onnxruntime, InputError when it does not take the model.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise NotInstalled("comparing with onnxruntime needs the extra: pip install 'softneuro[bench]'")
    try:
        return _opened(model, feeds, threads, outputs)
    except Exception as error:  # onnxruntime raises types of its own, none public
        raise _refused(model, error) from error


def run_onnxruntime(model: Path | None, feeds: Mapping[str, Array], session: Session) -> dict[str, Any]:
    """The outputs of onnxruntime on as many threads as the session has.

    Raises NotInstalled; InputError when the model is not given or onnxruntime cannot run it.
    """
    if model is None:
        raise InputError("comparing with onnxruntime needs the model: --model model.onnx")
    return run_session(onnxruntime_session(model, feeds, session.threads), feeds, model)


def run_session(peer: Any, feeds: Mapping[str, Array], model: Path) -> dict[str, Any]:
    """All outputs of an onnxruntime session by name. Raises InputError when it cannot run the model on the feeds."""
    names = [output.name for output in peer.get_outputs()]
    try:
        return dict(zip(names, peer.run(names, dict(feeds)), strict=True))
    except Exception as error:  # likewise
        raise _refused(model, error) from error


def onnxruntime_tensors(model: Path) -> frozenset[str]:
    """The names of all tensors that the nodes of the model's graph make (not those inside branches, loops and functions)."""
    return frozenset(name for node in _proto(model).graph.node for name in node.output if name)


def _refused(model: Path, error: Exception) -> InputError:
    return InputError(f"onnxruntime cannot run {str(model)!r}: {error}")


def _opened(model: Path, feeds: Mapping[str, Array], threads: int, outputs: Sequence[str] | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    if outputs is None:
        peer = onnxruntime.InferenceSession(str(model), options, providers=providers)
        declared = {i.name: i.shape for i in peer.get_inputs()}
        if all(admits(declared.get(name), array.shape) for name, array in feeds.items() if isinstance(array, np.ndarray)):
            return peer
    changed = _changed(_proto(model), feeds, outputs)
    options.add_session_config_entry(_DATA_FOLDER, str(model.resolve().parent))
    return onnxruntime.InferenceSession(changed.SerializeToString(), options, providers=providers)


def _proto(model: Path) -> onnx.ModelProto:
    """The model, without weights that lie in other files."""
    import onnx

    try:
        return onnx.load(str(model), load_external_data=False)
    except Exception as error:  # protobuf's, of no public type
        raise _refused(model, error) from error


def _changed(proto: onnx.ModelProto, feeds: Mapping[str, Array], outputs: Sequence[str] | None) -> onnx.ModelProto:
    """The model for the sizes of the feeds, with other outputs where such are given."""
    import onnx

    replace_input_sizes(proto, feeds)
    if outputs is not None:
        declared = {item.name: item for item in proto.graph.output}
        kept = [declared.get(name, onnx.ValueInfoProto(name=name)) for name in outputs]  # onnxruntime infers the types
        del proto.graph.output[:]
        proto.graph.output.extend(kept)
    return proto
