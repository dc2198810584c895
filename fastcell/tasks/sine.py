"""Sine continuation: the next value of a wave whose pace and phase have to be heard first.

    u_t = sin(a + w t),  t = 0 .. T - 1,    y = sin(a + w T),    Var[y] = 1/2

The phase a ~ Uniform[0, 2 pi), the pace w ~ Uniform[0.1, 1): a period has 6 to 63 steps. Source:
the "simple sine" among the tests of a softsign gated network, which gives neither pace nor length.
"""

import math

import torch

from .task import Data, Examples, Task

LENGTH = 48
TRAINING, VALIDATION, TEST = 1024, 256, 256
DATA_SEED = 20_260_102
"""Draws the data, whatever the seed of a run: every cell sees the same examples."""


def examples(count: int, length: int, generator: torch.Generator) -> Examples:
    """`count` waves of `length` steps: inputs (length, count, 1), targets (count, 1)."""
    phase, pace = torch.rand(2, count, generator=generator)
    steps = torch.arange(length + 1).unsqueeze(1)
    waves = torch.sin(2 * math.pi * phase + (0.1 + 0.9 * pace) * steps)
    return Examples(waves[:-1].unsqueeze(-1), waves[-1].unsqueeze(-1))


def data() -> Data:
    """The task's examples, drawn one part after the other."""
    generator = torch.Generator().manual_seed(DATA_SEED)
    return Data(*(examples(count, LENGTH, generator) for count in (TRAINING, VALIDATION, TEST)))


SINE = Task(name="sine", channels=1, outputs=1, variance=1 / 2, data=data)
