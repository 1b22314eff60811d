"""Part 4: three hot workloads, jscatter and plain JAX in turn in one run."""

from __future__ import annotations

import random
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import jscatter as js
from jscatter._commands import plain

SECONDS = 2.5  # for each workload
LEAST_ROUNDS = 5


def run(report) -> None:
    """Compares values exactly, prints ratios of times; a ratio is never a check."""
    report.heading("Three hot workloads against plain JAX")
    report.line(
        "Ratio: plain JAX's time over jscatter's, in turn, in shuffled order; above 1"
        " jscatter is faster.\nNoise: plain JAX against itself. Median (quartiles)."
    )
    rows = []
    for name, ours, theirs, args in _workloads():
        report.step(name)
        ours, theirs = jax.jit(ours), jax.jit(theirs)
        # The values are small integers: their sums are exact in any order.
        same = np.array_equal(ours(*args), theirs(*args))
        word = report.check(f"{name}: plain JAX's values", same)
        mine, other, again = _times(ours, theirs, theirs, args=args)
        row = (f"{1e3 * np.median(mine):.2f} ms", _spread(other / mine))
        rows.append((name, *row, _spread(other / again), str(len(mine)), word))
    header = ("workload", "jscatter", "ratio", "noise", "rounds", "same values")
    report.table(header, rows)


def _workloads():
    """(name, jscatter's function, plain JAX's, arguments)."""
    rng = np.random.default_rng(0)

    def values(*shape):
        return jnp.asarray(rng.integers(-8, 9, shape, np.int8), np.float32)

    def ids(n, *shape):
        return jnp.asarray(rng.integers(0, n, shape, np.int32))

    def segments(n):
        both = js.ops.segment_sum, plain.segment_sum
        return [partial(f, num_segments=n) for f in both]

    args = values(160_000, 128), ids(10_000, 160_000)
    yield "160000 rows of 128 into 10000", *segments(10_000), args
    shape = (4096, 512)
    args = values(*shape), ids(512, *shape), values(*shape)
    ours = lambda input, index, src: js.mint.scatter_add(input, 1, index, src)
    yield "[4096,512] along dim 1", ours, plain.scatter_add_dim_1, args
    args = values(1_000_000), ids(4096, 1_000_000)
    yield "1000000 numbers into 4096 bins", *segments(4096), args


def _times(*functions, args):
    """Seconds `[functions, rounds]`; each round calls all, in shuffled order."""
    shuffle, rounds = random.Random(0).shuffle, []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(rounds) < LEAST_ROUNDS:
        order = list(range(len(functions)))
        shuffle(order)
        times = [0.0] * len(functions)
        for i in order:
            start = time.perf_counter()
            jax.block_until_ready(functions[i](*args))
            times[i] = time.perf_counter() - start
        rounds.append(times)
    return np.array(rounds).T


def _spread(ratios) -> str:
    low, median, high = np.percentile(ratios, (25, 50, 75))
    return f"{median:.2f} ({low:.2f}-{high:.2f})"
