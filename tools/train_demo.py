"""Train the network of `softneuro demo` on Fashion-MNIST, and write it and 200 test pictures into the package.

    apt-get install dataset-fashion-mnist
    pip install torch==2.13.0
    python tools/train_demo.py --data /usr/share/datasets/fashion-mnist --output softneuro/demo

Takes about ten minutes on one core. The same seed, torch version, instruction set and number of threads give the same
weights. The test pictures play no part in the training and none is chosen by how it is answered: the 200 are the first
20 of each class.
"""
from __future__ import annotations

import argparse
import gzip
import importlib.util
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

import numpy as np

from softneuro.demo.data import as_input
from tools.demo_net import CLASSES, CONVS, EPSILON, FEATURES, SIDE, OnnxWriter, Weights, network
from tools.model_cache import write_atomically

if TYPE_CHECKING:
    import torch

Array = np.ndarray[Any, Any]
EPOCHS, BATCH, PEAK_RATE, WEIGHT_DECAY, SMOOTHING = 12, 128, 0.01, 0.02, 0.05
SHIFT = 2
PICTURES_PER_CLASS = 20


class TorchEngine:
    """The engine that computes the network, and holds what is trained."""

    def __init__(self) -> None:
        from torch import nn

        self.parts = nn.ModuleDict()
        for name, conv in CONVS.items():
            self.parts[_key(name, "conv")] = nn.Conv2d(
                conv.inputs, conv.outputs, conv.kernel, conv.stride, conv.kernel // 2, groups=conv.groups, bias=False
            )
            self.parts[_key(name, "norm")] = nn.BatchNorm2d(conv.outputs, eps=EPSILON)
        self.parts["classifier"] = nn.Linear(FEATURES, CLASSES)

    def conv(self, x: torch.Tensor, name: str) -> torch.Tensor:
        result: torch.Tensor = self.parts[_key(name, "norm")](self.parts[_key(name, "conv")](x))
        return result

    def relu(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def max_pool(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.max_pool2d(x, 2)

    def classifier(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.parts["classifier"](x.mean((2, 3)))
        return result

    def weights(self) -> Weights:
        """Arrays by the names that `OnnxWriter` reads."""
        return {name.replace("/", "."): tensor.numpy() for name, tensor in self.parts.state_dict().items()}


def _key(name: str, part: str) -> str:
    return f"{name}.{part}".replace(".", "/")  # module names hold no dots


def load(folder: Path, part: str) -> tuple[Array, Array]:
    """Pictures n x 28 x 28 and labels n (u8) of the part ``train`` or ``t10k``. Raises OSError when they are not there."""
    pictures = _bytes(folder / f"{part}-images-idx3-ubyte.gz", header=16)
    labels = _bytes(folder / f"{part}-labels-idx1-ubyte.gz", header=8)
    return pictures.reshape(-1, SIDE, SIDE), labels


def _bytes(path: Path, header: int) -> Array:
    with gzip.open(path) as file:
        return np.frombuffer(file.read()[header:], np.uint8)


def train(pictures: Array, labels: Array, epochs: int, seed: int, threads: int) -> TorchEngine:
    """A trained network: AdamW, one cycle of the learning rate (Smith and Topin 2018), flips and shifts of the pictures."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    engine = TorchEngine()
    images, targets = torch.from_numpy(as_input(pictures)), torch.from_numpy(labels.astype(np.int64))
    optimiser = torch.optim.AdamW(engine.parts.parameters(), PEAK_RATE, weight_decay=WEIGHT_DECAY)
    steps = epochs * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, steps, pct_start=0.2)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    for epoch in range(epochs):
        total = 0.0
        for chosen in torch.randperm(len(images))[: len(images) // BATCH * BATCH].split(BATCH):
            loss = loss_of(network(engine, _varied(images[chosen])), targets[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * BATCH / len(images)
        print(f"epoch {epoch + 1} of {epochs}: loss {total:.4f}", flush=True)
    engine.parts.eval()
    return engine


def _varied(images: torch.Tensor) -> torch.Tensor:
    """Every picture mirrored or not, and moved by up to two pixels each way."""
    import torch

    count = len(images)
    images = torch.where(torch.rand(count, 1, 1, 1) < 0.5, images.flip(3), images)
    padded = torch.nn.functional.pad(images, (SHIFT,) * 4)
    rows, columns = (torch.randint(2 * SHIFT + 1, (count, 1)) + torch.arange(SIDE) for _ in range(2))
    return padded[torch.arange(count)[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]


def accuracy(engine: TorchEngine, pictures: Array, labels: Array) -> float:
    """The share of pictures answered right."""
    import torch

    with torch.no_grad():
        found = [network(engine, part).argmax(1).numpy() for part in torch.from_numpy(as_input(pictures)).split(500)]
    return float((np.concatenate(found) == labels).mean())


def sample(pictures: Array, labels: Array) -> tuple[Array, Array]:
    """The first 20 pictures of each class, in the order of the test set."""
    chosen = np.sort(np.concatenate([np.flatnonzero(labels == c)[:PICTURES_PER_CLASS] for c in range(CLASSES)]))
    return pictures[chosen], labels[chosen]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="where the four *-ubyte.gz files are")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where the model and the pictures go")
    parser.add_argument("--epochs", type=int, default=EPOCHS, metavar="N", help="passes over the data (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the weights and the order (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads to train with (default %(default)s)")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        parser.error("training needs PyTorch: pip install torch==2.13.0")
    test = load(options.data, "t10k")
    engine = train(*load(options.data, "train"), options.epochs, options.seed, options.threads)
    share = accuracy(engine, *test)
    model = OnnxWriter(engine.weights()).model(_doc(share, options.epochs, options.seed))
    write_atomically(options.output / "fashion_mnist.onnx", model.SerializeToString(deterministic=True))
    pictures, labels = sample(*test)
    packed = io.BytesIO()
    np.savez_compressed(packed, pictures=pictures, labels=labels)
    write_atomically(options.output / "pictures.npz", packed.getvalue())
    sampled = accuracy(engine, pictures, labels)
    print(f"{100 * share:.2f}% of the {len(test[1])} test pictures, {100 * sampled:.1f}% of the sample")
    return 0


def _doc(share: float, epochs: int, seed: int) -> str:
    import torch

    return (
        "A small CNN for Fashion-MNIST (pictures of clothes, 28 x 28, ten classes; Xiao, Rasul and Vollgraf 2017, MIT licence). "
        f"Made by tools/train_demo.py of softneuro: {epochs} epochs, seed {seed}, PyTorch {torch.__version__}; "
        f"{100 * share:.2f}% right on the 10,000 test pictures. Input: any number of pictures with values 0 to 1."
    )


if __name__ == "__main__":
    sys.exit(main())
