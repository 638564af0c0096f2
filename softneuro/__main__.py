"""``python -m softneuro``."""

from softneuro.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
