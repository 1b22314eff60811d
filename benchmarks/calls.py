"""What a small eager call costs beside a jitted plain call, and what an import adds.

    python benchmarks/calls.py

Both are timed in turn, in shuffled order, in one process; printed are the median of the
paired ratios and its quartiles, with the plain call against itself for the noise.
"""

import random
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jscatter as js

x, i, u = jnp.zeros((32, 16)), jnp.zeros(16, int), jnp.ones((16, 16))
pairs = i[:, None]
along = jnp.zeros((16, 16), int)
plain = jax.jit(lambda x, i, u: x.at[i].add(u, mode="drop"))
options = dict(mode="drop", indices_are_sorted=True)

CALLS = {
    "plain, against itself": lambda: plain(x, i, u),
    "mint.index_add": lambda: js.mint.index_add(x, 0, i, u),
    "mint.index_add, keywords and options": lambda: js.mint.index_add(
        input=x, dim=0, index=i, source=u, **options
    ),
    "mint.scatter_add": lambda: js.mint.scatter_add(x, 0, along, u),
    "tf.tensor_scatter_nd_add": lambda: js.tf.tensor_scatter_nd_add(x, pairs, u),
    "tf.scatter_nd": lambda: js.tf.scatter_nd(pairs, u, (32, 16)),
    "bnns.scatter_nd": lambda: js.bnns.scatter_nd("sum", u, pairs, x),
    "ops.segment_sum": lambda: js.ops.segment_sum(u, i, 32),
    "ops.segment_sum, keywords and options": lambda: js.ops.segment_sum(
        data=u, segment_ids=i, num_segments=32, **options
    ),
    "ops.take": lambda: js.ops.take(x, i),
    "eager x.at[i].add(u)": lambda: x.at[i].add(u, mode="drop"),
}


def microseconds(call, n):
    start = time.perf_counter()
    for _ in range(n):
        out = call()
    out.block_until_ready()
    return 1e6 * (time.perf_counter() - start) / n


def main(rounds=60, n=60):
    times = {name: [] for name in CALLS}
    base = {name: [] for name in CALLS}
    for call in CALLS.values():
        microseconds(call, 20)
    for _ in range(rounds):
        for name in random.sample(list(CALLS), len(CALLS)):
            few = 3 if name.startswith("eager") else n
            both = [
                (times, CALLS[name], few),
                (base, CALLS["plain, against itself"], n),
            ]
            random.shuffle(both)
            for into, call, repeats in both:
                into[name].append(microseconds(call, repeats))
    print(
        f"jax {jax.__version__}, numpy {np.__version__}, {jax.devices()[0].device_kind}"
    )
    print(f"{'call':40} {'us':>7}  {'ratio to the jitted plain call':>30}")
    for name in CALLS:
        ratios = [a / b for a, b in zip(times[name], base[name])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        us = statistics.median(times[name])
        print(f"{name:40} {us:7.1f}  {middle:10.2f} ({low:.2f} to {high:.2f})")


def import_time():
    """CPU time of `import jscatter` after JAX, and after its interpreters too."""
    code = """if True:
        import time
        import jax, jax.numpy
        {more}
        start = time.process_time()
        import jscatter
        print(1000 * (time.process_time() - start))
    """
    for more, name in (
        ("pass", "after jax"),
        ("import jax.extend.core, jax.interpreters.mlir", "after jax and jax.extend"),
    ):
        run = [sys.executable, "-c", code.format(more=more)]
        each = [
            float(
                subprocess.run(run, capture_output=True, text=True, check=True).stdout
            )
            for _ in range(5)
        ]
        print(
            f"import jscatter {name}: {statistics.median(each):.0f} ms CPU time added"
        )


def first_line():
    """From the start of the interpreter to the main job's first line."""
    for name, args in (
        ("python -m jscatter", ["-m", "jscatter", "--quick"]),
        ("import jax, jax.numpy", ["-c", "import jax, jax.numpy; print()"]),
    ):
        each = []
        for _ in range(5):
            start = time.perf_counter()
            with subprocess.Popen(
                [sys.executable, *args], stdout=subprocess.PIPE
            ) as process:
                assert process.stdout.readline()
                each.append(time.perf_counter() - start)
                process.kill()
        print(f"first line of {name}: {statistics.median(each):.1f} s")


if __name__ == "__main__":
    main()
    import_time()
    first_line()
