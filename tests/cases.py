"""The public functions in each index form, as functions of their float arguments alone.

One table for all that tests by transformation. `oracle` is the same function as
NumPy loops; for a linear one `reference` is `x + M u` with M read off those loops,
which any transformation of JAX gets right.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracle

import jscatter as js

RNG = np.random.default_rng(0)


class Case(NamedTuple):
    name: str
    form: str
    run: Callable  # (*arrays) -> array
    oracle: Callable  # the same in NumPy
    args: tuple
    linear: bool

    @property
    def reference(self):
        if not self.linear:
            shape = self.oracle(*self.args).shape
            out = jax.ShapeDtypeStruct(shape, np.float32)
            as_numpy = lambda *a: self.oracle(*map(np.asarray, a)).astype(np.float32)
            return lambda *a: jax.pure_callback(
                as_numpy, out, *a, vmap_method="sequential"
            )
        matrices = oracle.matrix(self.oracle, *self.args)
        shape = self.oracle(*self.args).shape

        def run(*args):
            parts = [m.astype(np.float32) @ a.ravel() for m, a in zip(matrices, args)]
            return sum(parts[1:], start=parts[0]).reshape(shape)

        return run


def floats(*shape):
    # Quarters: sums of a few are exact. Not 0: products stay distinguishable.
    return np.where(u := RNG.integers(-8, 9, shape) / 4, u, 1).astype(np.float32)


def ids(high, *shape, low=-1):
    return RNG.integers(low, high + 1, shape).astype(np.int32)


# Two cells of four are met twice; one id is below, one above; two cells get nothing.
SIX = np.array([0, 2, 0, -1, 2, 4], np.int32)
POINTS = np.array([[0, 1], [0, 1], [2, 3], [3, 0], [2, 3]], np.int32)

# form: (the oracle's form and dim, operand, indices, updates)
ND = {
    "nd": ("nd", 0, floats(3, 4, 2), POINTS, floats(5, 2)),
    "nd K=0": ("nd", 0, floats(3), np.zeros((4, 0), np.int32), floats(4, 3)),
    "nd rank 0": ("nd", 0, floats(), np.zeros((4, 0), np.int32), floats(4)),
    "nd one vector": ("nd", 0, floats(3, 4), np.array([2, 1]), floats()),
    "nd 2-D batch": ("nd", 0, floats(4, 2), SIX.reshape(2, 3, 1), floats(2, 3, 2)),
}
ALONG = {
    "along": ("along", 1, floats(3, 4, 2), ids(4, 3, 5, 2), floats(3, 5, 2)),
    "along short": ("along", 0, floats(4, 3, 2), ids(4, 5, 2, 2), floats(6, 2, 3)),
    "along rank 1": ("along", 0, floats(4), SIX, floats(6)),
    "along dim -1": (
        "along",
        -1,
        floats(2, 4),
        np.array([[1, 1, 4], [0, -1, 0]], np.int32),
        floats(2, 3),
    ),
}
ROWS = {
    "rows": ("rows", 0, floats(4, 3), SIX, floats(6, 3)),
    "rows dim -1": ("rows", -1, floats(3, 4), SIX, floats(3, 6)),
    "rows middle": ("rows", 1, floats(2, 4, 3), SIX[:5], floats(2, 5, 3)),
}
SEGMENTS = {
    "segments": ("rows", 0, floats(4, 3), SIX, floats(6, 3)),
    "segments scalars": ("rows", 0, floats(4), SIX, floats(6)),
    "segments 2-D ids": ("rows", 0, floats(4, 2), SIX.reshape(2, 3), floats(2, 3, 2)),
}
BATCHED = {
    "nd batch_dims": ("nd", 1, floats(3, 4, 2), ids(4, 3, 5, 1), floats(3, 5, 2))
}

LINEAR = ("add", "subtract")
tensor_scatter = {
    "add": js.tf.tensor_scatter_nd_add,
    "subtract": js.tf.tensor_scatter_nd_sub,
    "multiply": js.tf.tensor_scatter_nd_mul,
    "divide": js.tf.tensor_scatter_nd_div,
    "min": js.tf.tensor_scatter_nd_min,
    "max": js.tf.tensor_scatter_nd_max,
    "set": js.tf.tensor_scatter_nd_update,
}
bnns = {
    "add": "SUM",
    "multiply": "PRODUCT",
    "min": "MIN",
    "max": "MAX",
    "set": "NONE",
}
segment = {
    "add": js.ops.segment_sum,
    "multiply": js.ops.segment_prod,
    "min": js.ops.segment_min,
    "max": js.ops.segment_max,
}
identity = {"add": 0, "multiply": 1, "min": np.inf, "max": -np.inf}


def _cases():
    def scatter(name, form, table, op, run):
        kind, dim, x, i, u = table[form]
        if op == "set":  # which duplicate wins is not said: give all the same value
            u = np.ones_like(u)

        def by_loops(x, u):
            return oracle.scatter(kind, op, x, i, u, dim=dim)

        args = (x, u)
        yield Case(
            name, form, lambda x, u: run(dim, x, i, u), by_loops, args, op in LINEAR
        )

    def gather(name, form, table, run):
        kind, dim, x, i, u = table[form]
        shape = tuple(i.shape) if kind == "along" else u.shape
        by_loops = lambda x: oracle.gather(kind, x, i, shape, dim=dim)
        yield Case(name, form, lambda x: run(dim, x, i), by_loops, (x,), True)

    def from_nothing(name, form, table, op, run, start):
        kind, dim, x, i, u = table[form]

        def by_loops(u):
            operand = np.full(x.shape, start, u.dtype)
            return oracle.scatter(kind, op, operand, i, u, dim=dim)

        yield Case(
            name, form, lambda u: run(x.shape, i, u), by_loops, (u,), op == "add"
        )

    for form in ND:
        for op, fun in tensor_scatter.items():
            run = lambda d, x, i, u, fun=fun: fun(x, i, u)
            yield from scatter(f"tf.{fun.__name__}", form, ND, op, run)
        for op, name in bnns.items():
            run = lambda d, x, i, u, n=name: js.bnns.scatter_nd(n, u, i, x)
            yield from scatter(f"bnns.scatter_nd {name}", form, ND, op, run)
        run = lambda shape, i, u: js.tf.scatter_nd(i, u, shape)
        yield from from_nothing("tf.scatter_nd", form, ND, "add", run, 0)
        run = lambda d, x, i: js.bnns.gather_nd(x, i)
        yield from gather("bnns.gather_nd", form, ND, run)
    for form in ND | BATCHED:
        run = lambda d, x, i: js.tf.gather_nd(x, i, d)
        yield from gather("tf.gather_nd", form, ND | BATCHED, run)
    for form in ALONG:
        run = lambda d, x, i, u: js.mint.scatter_add(x, d, i, u)
        yield from scatter("mint.scatter_add", form, ALONG, "add", run)
        for reduce in (None, "add", "multiply"):
            run = lambda d, x, i, u, r=reduce: js.mint.scatter(x, d, i, u, reduce=r)
            name = f"mint.scatter {reduce}"
            yield from scatter(name, form, ALONG, reduce or "set", run)
        run = lambda d, x, i: js.mint.gather(x, d, i)
        yield from gather("mint.gather", form, ALONG, run)
    for form in ROWS:
        run = lambda d, x, i, u: js.mint.index_add(x, d, i, u)
        yield from scatter("mint.index_add", form, ROWS, "add", run)
        run = lambda d, x, i: js.mint.index_select(x, d, i)
        yield from gather("mint.index_select", form, ROWS, run)
    for form in SEGMENTS:
        for op, fun in segment.items():
            run = lambda shape, i, u, fun=fun: fun(u, i, shape[0])
            name = f"ops.{fun.__name__}"
            yield from from_nothing(name, form, SEGMENTS, op, run, identity[op])
        _, _, x, i, u = SEGMENTS[form]
        run = lambda u, i=i, n=len(x): js.ops.segment_mean(u, i, n)
        loops = lambda u, i=i, n=len(x): oracle.mean("rows", n, i, u, u.dtype)
        yield Case("ops.segment_mean", form, run, loops, (u,), True)
        run = lambda d, x, i: js.ops.take(x, i)
        yield from gather("ops.take", form, SEGMENTS, run)


CASES = {f"{case.name} {case.form}": case for case in _cases()}
FUNCTIONS = sorted({case.name for case in CASES.values()})
FORMS = sorted({case.form for case in CASES.values()})


def once() -> list[str]:
    """Case names that meet every function and every form at least once."""
    left = {*FUNCTIONS, *FORMS}
    chosen = []
    for key, case in CASES.items():  # a function's first form stands first in its table
        if {case.name, case.form} & left:
            chosen.append(key)
            left -= {case.name, case.form}
    return chosen


def weighted(fun):
    """A scalar loss of `fun` with non-zero derivatives of every order."""

    def loss(*args):
        out = fun(*args)
        weights = jnp.arange(1, 1 + out.size, dtype=out.dtype).reshape(out.shape)
        return (jnp.sin(out) * weights).sum()

    return loss
