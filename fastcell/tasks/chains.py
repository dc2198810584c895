"""Chains of values as tokens: what was the first value given first, and what is it in the end?

    0 .. 14    values
    15         ARROW
    16, 17     ASK_FIRST, ASK_LAST: the last token of a sequence
    18 .. 20   distractors: they mean nothing, and stand anywhere before the question

    multi-hop    a → b → c ?               of 2 hops: first b, in the end c
    branching    a → b → c  a → d → e ?    of 2 hops: first c, in the end e

All is uniform: values are distinct within a chain, two branches share their start and differ in
their ends. Longer chains than a model was trained on show whether it extrapolates. Source: the
tests of a softsign gated network, where branches of one hop are learned and of two are asked.
"""

import torch
from torch import Tensor

from ..errors import TaskError
from .task import Examples

VALUES = 15
ARROW, ASK_FIRST, ASK_LAST = 15, 16, 17
VOCABULARY = 18
VOCABULARY_WITH_DISTRACTORS = 21


def multi_hop(
    count: int,
    hops: int,
    generator: torch.Generator,
    question: int | None = None,
    distractors: int = 0,
) -> Examples:
    """One chain of `hops` arrows: tokens (2 * hops + 2 + distractors, count), targets (count,).

    The question is drawn for each sequence unless given. Raises TaskError for a number or a
    question out of range.
    """
    _check(hops, question, distractors)
    values = _scores(count, generator).argsort(dim=1)[:, : hops + 1]
    return _ask(_link(values), values[:, 1], values[:, -1], generator, question, distractors)


def branching_multi_hop(
    count: int,
    hops: int,
    generator: torch.Generator,
    question: int | None = None,
    distractors: int = 0,
) -> Examples:
    """Two chains from one start: tokens (4 * hops + 3 + distractors, count), targets (count,).

    The answers are the two ends. The question is drawn for each sequence unless given. Raises
    TaskError for a number or a question out of range.
    """
    _check(hops, question, distractors)
    start, first, last = _scores(count, generator).argsort(dim=1)[:, :3].unbind(dim=1)
    branches = [_link(_chain(start, end, hops, generator)) for end in (first, last)]
    return _ask(torch.cat(branches, dim=1), first, last, generator, question, distractors)


def _scores(count: int, generator: torch.Generator) -> Tensor:
    """A random number for each value: in their order, the values of a row are shuffled."""
    return torch.rand(count, VALUES, generator=generator)


def _chain(start: Tensor, end: Tensor, hops: int, generator: torch.Generator) -> Tensor:
    """Values (N, hops + 1) from start (N,) to end (N,), all distinct."""
    ends = torch.stack([start, end], dim=1)
    middle = _scores(len(start), generator).scatter_(1, ends, 1.0).argsort(dim=1)[:, : hops - 1]
    return torch.cat([ends[:, :1], middle, ends[:, 1:]], dim=1)


def _link(values: Tensor) -> Tensor:
    """Values (N, n) with an arrow between each two: (N, 2n - 1)."""
    count, length = values.shape
    tokens = torch.full((count, 2 * length - 1), ARROW)
    tokens[:, ::2] = values
    return tokens


def _ask(
    tokens: Tensor,
    first: Tensor,
    last: Tensor,
    generator: torch.Generator,
    question: int | None,
    distractors: int,
) -> Examples:
    """The tokens (N, T) with a question and distractors, and the answers to it."""
    if question is None:
        questions = torch.randint(ASK_FIRST, ASK_LAST + 1, first.shape, generator=generator)
    else:
        questions = torch.full_like(first, question)
    scattered = _scatter(tokens, distractors, generator)
    inputs = torch.cat([scattered, questions.unsqueeze(1)], dim=1)
    return Examples(inputs.T, torch.where(questions == ASK_FIRST, first, last))


def _scatter(tokens: Tensor, distractors: int, generator: torch.Generator) -> Tensor:
    """The tokens (N, T) in their order among so many distractors."""
    count, length = tokens.shape
    size = (count, length + distractors)
    scattered = torch.randint(VOCABULARY, VOCABULARY_WITH_DISTRACTORS, size, generator=generator)
    places = torch.rand(size, generator=generator).argsort(dim=1)[:, :length].sort(dim=1).values
    return scattered.scatter_(1, places, tokens)


def _check(hops: int, question: int | None, distractors: int) -> None:
    if not isinstance(hops, int) or not 1 <= hops < VALUES:
        reason = f"the values of a chain are distinct, and there are {VALUES}"
        raise TaskError(
            f"hops: expected a whole number from 1 to {VALUES - 1} ({reason}); found {hops!r}"
        )
    if question not in (None, ASK_FIRST, ASK_LAST):
        expected = f"ASK_FIRST = {ASK_FIRST}, ASK_LAST = {ASK_LAST} or None for either"
        raise TaskError(f"question: expected {expected}; found {question!r}")
    if not isinstance(distractors, int) or distractors < 0:
        raise TaskError(f"distractors: expected a whole number >= 0, found {distractors!r}")
