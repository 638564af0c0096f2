"""``python -m softneuro``, and the script ``softneuro``."""
# PYTHON_ARGCOMPLETE_OK

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code. Ctrl-C is quiet even while modules are loaded."""
    try:
        from softneuro.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("softneuro: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
