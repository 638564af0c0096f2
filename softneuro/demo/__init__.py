"""What `softneuro demo` shows: a small CNN trained on Fashion-MNIST, and pictures to try it on."""

from softneuro.demo.data import load_pictures, model_path

__all__ = ["load_pictures", "model_path"]
