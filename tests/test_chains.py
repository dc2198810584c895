"""Chains, read token by token by a plain reader that knows nothing of how they are drawn."""

import pytest
import torch

from fastcell import TaskError
from fastcell.tasks.chains import (
    ARROW,
    ASK_FIRST,
    ASK_LAST,
    VALUES,
    VOCABULARY,
    VOCABULARY_WITH_DISTRACTORS,
    branching_multi_hop,
    multi_hop,
)

TASKS = {"multi_hop": multi_hop, "branching_multi_hop": branching_multi_hop}
BRANCHES = {multi_hop: 1, branching_multi_hop: 2}


@pytest.fixture(params=TASKS.values(), ids=TASKS)
def task(request):
    return request.param


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def read(tokens):
    """The chains of a sequence, its question and how many distractors it has."""
    *body, question = tokens
    meant = [token for token in body if token < VOCABULARY]
    chains, linked = [], False
    for token in meant:
        if token == ARROW:
            linked = True
        elif linked:
            chains[-1].append(token)
            linked = False
        else:
            chains.append([token])
    return chains, question, len(body) - len(meant)


def answer(chains, question):
    if len(chains) == 1:
        (chain,) = chains
        return chain[1] if question == ASK_FIRST else chain[-1]
    return chains[0][-1] if question == ASK_FIRST else chains[1][-1]


@pytest.mark.parametrize("hops", [1, 2, 5, 14])
@pytest.mark.parametrize("distractors", [0, 3])
def test_every_sequence_is_as_defined(task, hops, distractors):
    drawn = task(64, hops, seeded(), distractors=distractors)
    length = BRANCHES[task] * (2 * hops + 1) + 1 + distractors
    assert drawn.inputs.shape == (length, 64)
    assert drawn.targets.shape == (64,)
    assert drawn.inputs.dtype == drawn.targets.dtype == torch.int64
    asked = set()
    for tokens, target in zip(drawn.inputs.T.tolist(), drawn.targets.tolist(), strict=True):
        chains, question, others = read(tokens)
        asked.add(question)
        assert others == distractors
        assert [len(chain) for chain in chains] == [hops + 1] * BRANCHES[task]
        assert all(len(set(chain)) == len(chain) for chain in chains)
        assert len({chain[0] for chain in chains}) == 1
        assert len({chain[-1] for chain in chains}) == len(chains)
        assert answer(chains, question) == target
    assert asked == {ASK_FIRST, ASK_LAST}


def test_the_chains_of_the_source():
    """[a → b a → c ?], of 7 tokens, and of two hops 11."""
    drawn = branching_multi_hop(5, 1, seeded(), question=ASK_LAST)
    for a, arrow, b, again, arrow_too, c, question in drawn.inputs.T.tolist():
        assert (arrow, again, arrow_too, question) == (ARROW, a, ARROW, ASK_LAST)
        assert len({a, b, c}) == 3
    assert torch.equal(drawn.targets, drawn.inputs[5])
    assert branching_multi_hop(5, 2, seeded()).inputs.shape == (11, 5)


def uniform(tokens, classes):
    """Chi-square of the counts over its degrees of freedom; 1 on average."""
    counts = torch.bincount(tokens, minlength=classes).double()
    assert len(counts) == classes
    expected = counts.sum() / classes
    return float(((counts - expected) ** 2 / expected).sum() / (classes - 1))


def test_values_ends_questions_and_distractors_are_uniform(task):
    drawn = task(60_000, 3, seeded(1), distractors=2)
    assert uniform(drawn.targets, VALUES) < 3.2  # 14 degrees: p ~ 4e-5
    assert uniform(drawn.inputs[-1] - ASK_FIRST, 2) < 17  # 1 degree: p ~ 4e-5
    foreign = drawn.inputs[drawn.inputs >= VOCABULARY] - VOCABULARY
    assert uniform(foreign, VOCABULARY_WITH_DISTRACTORS - VOCABULARY) < 10  # 2 degrees
    places = (drawn.inputs >= VOCABULARY).nonzero()[:, 0]
    assert uniform(places, len(drawn.inputs) - 1) < 3.2  # so never at the question


def test_pairs_of_middles_are_uniform():
    """Of two-hop branches from 0 to 1 and to 2: each middle one of 13 values, drawn apart."""
    tokens = branching_multi_hop(400_000, 2, seeded(2), question=ASK_LAST).inputs
    chosen = (tokens[0] == 0) & (tokens[4] == 1) & (tokens[9] == 2)
    first, second = tokens[2][chosen], tokens[7][chosen]
    assert set(first.tolist()) == set(range(VALUES)) - {0, 1}
    assert set(second.tolist()) == set(range(VALUES)) - {0, 2}
    same = (first == second).double().mean()
    expected = 12 / 13**2  # 12 values are open to both
    assert abs(same - expected) < 5 * (expected * (1 - expected) / len(first)) ** 0.5


def test_the_seed_decides(task):
    first, again, other = (task(9, 2, seeded(seed), distractors=1) for seed in (3, 3, 4))
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


def test_global_generator_is_left_alone(task):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    task(5, 2, seeded(), distractors=1)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, r"hops: expected a whole number from 1 to 14 .*; found 0"),
        ({"hops": 15}, r"hops: .* found 15"),
        ({"hops": 2.0}, r"hops: .* found 2.0"),
        ({"question": 15}, r"question: expected ASK_FIRST = 16, .*; found 15"),
        ({"distractors": -1}, r"distractors: expected a whole number >= 0, found -1"),
    ],
)
def test_errors_say_what_was_expected(task, options, message):
    with pytest.raises(TaskError, match=message):
        task(**{"count": 3, "hops": 1, "generator": seeded(), **options})
