"""Pictures with text on them: what optical character recognition is for."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from softneuro.types import Array

__all__ = ["text_picture"]

LINES = ("Faster than light", "PLAN 2048 x 7", "the quick brown fox", "0123456789", "jumps over the dog", "softneuro")


def text_picture(count: int, height: int, width: int, line_height: int, seed: int = 0) -> Array:
    """``count`` pictures as float32 (count, 3, height, width) in -1..1, dark lines of text on a light, uneven ground."""
    rng = np.random.default_rng(seed)
    font = ImageFont.load_default(int(line_height * 0.7))
    pictures = []
    for _ in range(count):
        ground = np.linspace(200, 250, width, dtype=np.float32)[None, :, None] + rng.normal(0, 3, (height, width, 3))
        picture = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
        draw = ImageDraw.Draw(picture)
        for top in range(0, height, line_height):
            draw.text((4, top + line_height * 0.1), LINES[int(rng.integers(len(LINES)))], fill=(20, 20, 40), font=font)
        pictures.append(np.asarray(picture, np.float32).transpose(2, 0, 1) / 127.5 - 1.0)
    return np.ascontiguousarray(np.stack(pictures))
