"""A process that compiles kernels into the cache: one request a line on standard input, one answer a line on output.

Started by `softneuro.codegen.precompile` as ``python -m softneuro.codegen.worker``. A request is the JSON form of a
kernel and its target; the answer is ``ok``, or the error as one line (whoever needs the kernel meets it again).
"""

from __future__ import annotations

import json
import sys

from softneuro.codegen.jit import object_code
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.errors import CompileError

__all__ = ["main"]


def main() -> int:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        spec = KernelSpec(request["module"], tuple((name, value) for name, value in request["literals"]))
        try:
            object_code(spec, Target(**request["target"]))
            answer = "ok"
        except CompileError as error:
            answer = " ".join(str(error).split())
        print(answer, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
