"""What a gradient costs: time in copies of the updates, memory, seconds to compile.

    python benchmarks/derivatives.py

float32 [160000, 128] -> 10000 rows, ids random. "copies": the time over that of writing
one array of the size of the updates (`x * 2`), interleaved, median of the ratios. A
loaded machine moves these by a factor of 2: read the order. "forward" is the ratio to
the plain lax scatter of the same kind, and of that to itself.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import jscatter as js

N, W, ROWS, ROUNDS = 160_000, 128, 10_000, 7
RNG = np.random.default_rng(0)
IDS = jnp.asarray(RNG.integers(0, ROWS, N).astype(np.int32))
X = jnp.asarray(RNG.uniform(0.5, 1.5, (N, W)).astype(np.float32))
T = jnp.ones((ROWS, W))


def plain(op, start):
    return lambda x, i: getattr(jnp.full((ROWS, W), start).at[i], op)(x)


FORWARD = {  # ours, and plain JAX's
    "product": (lambda x, i: js.segment_prod(x, i, ROWS), plain("multiply", 1.0)),
    "max": (lambda x, i: js.segment_max(x, i, ROWS), plain("max", -np.inf)),
    "set": (
        lambda x, i: js.tf.tensor_scatter_nd_update(T, i[:, None], x),
        plain("set", 1.0),
    ),
}
GRADIENT = {
    "plain sum": lambda x, i: jax.ops.segment_sum(x, i, ROWS),
    "plain max": FORWARD["max"][1],
    **{name: ours for name, (ours, _) in FORWARD.items()},
    "mean": lambda x, i: js.segment_mean(x, i, ROWS),
    "variance": lambda x, i: js.segment_variance(x, i, ROWS),
    "std": lambda x, i: js.segment_std(x, i, ROWS),
    "normalize": lambda x, i: js.segment_normalize(x, i, ROWS),
    "logsumexp": lambda x, i: js.segment_logsumexp(x, i, ROWS),
    "softmax": lambda x, i: js.segment_softmax(x, i, ROWS),
}


def seconds(f):
    start = time.perf_counter()
    jax.block_until_ready(f(X, IDS))
    return time.perf_counter() - start


def ratios(f, base):
    seconds(f), seconds(base)
    each = [seconds(f) / seconds(base) for _ in range(ROUNDS)]
    low, middle, high = statistics.quantiles(each, n=4)
    return f"{middle:5.2f} ({low:.2f} to {high:.2f})"


def main():
    device = jax.devices()[0].device_kind
    print(f"jax {jax.__version__}, {device}, float32 [{N}, {W}] -> {ROWS}")
    print("\nforward, ratio to plain JAX")
    print(f"{'plain sum, itself':20} {ratios(*[jax.jit(GRADIENT['plain sum'])] * 2)}")
    for name, (ours, theirs) in FORWARD.items():
        print(f"{name:20} {ratios(jax.jit(ours), jax.jit(theirs))}")
    print(f"\n{'gradient':20} {'copies':24} {'compile':>9} {'memory':>9}")
    copy = jax.jit(lambda x, i: x * 2)
    for name, f in GRADIENT.items():
        gradient = jax.jit(jax.grad(lambda x, i, f=f: (f(x, i) ** 2).sum()))
        start = time.perf_counter()
        compiled = gradient.lower(X, IDS).compile()
        spent = time.perf_counter() - start
        temp = compiled.memory_analysis().temp_size_in_bytes / 2**20
        print(f"{name:20} {ratios(compiled, copy):24} {spent:7.2f} s {temp:6.0f} MB")


if __name__ == "__main__":
    main()
