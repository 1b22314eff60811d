"""The public functions in each index form.

One table for all that tests by transformation. `loops` is the same function as NumPy
loops; for a linear one `reference` is `x + M u` with M read off those loops, which any
transformation of JAX gets right.
"""

from collections.abc import Callable
from typing import NamedTuple

import dense
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import jscatter as js

RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A public function of `operand, indices, updates`, of which it may ignore one.

    Attributes:
      name, form: what is called, and how the indices are meant.
      op: the reduction.
      call: (operand, indices, updates) -> array; reads only the operand's shape where
        the spelling takes none.
      loops: the same in NumPy.
      dense: for what is not linear: (mask, operand, updates), flat, to flat, in jnp.
      arrays: the three, to call it with.
      floats: the places of those that it is differentiated by.
    """

    name: str
    form: str
    op: str
    call: Callable
    loops: Callable
    dense: Callable | None
    arrays: tuple
    floats: tuple[int, ...]

    @property
    def linear(self):
        """In all its float arguments together."""
        return self.dense is None

    @property
    def args(self):
        return tuple(self.arrays[k] for k in self.floats)

    def filled(self, args, indices=None):
        """The three arrays, with these floats and perhaps other indices."""
        arrays = list(self.arrays)
        for k, arg in zip(self.floats, args):
            arrays[k] = arg
        if indices is not None:
            arrays[1] = indices
        return arrays

    def run(self, *args):
        return self.call(*self.filled(args))

    def reference(self, *args, indices=None):
        """`run` in plain jnp, by what the loops say where updates go."""
        x, i, u = self.filled(args, indices)
        if self.dense is None:
            loops = lambda *args: self.loops(*self.filled(args, indices))
            matrices = oracle.matrix(loops, *self.args)
            parts = [m.astype(np.float32) @ a.ravel() for m, a in zip(matrices, args)]
            return sum(parts[1:], start=parts[0]).reshape(loops(*self.args).shape)
        kind, dim, *_ = FORMS[self.form]
        like = self.loops(*self.arrays)
        mask = dense.mask(kind, self.arrays[0], i, self.arrays[2], dim=dim)
        out = self.dense(mask, x.ravel(), u.ravel())
        return out.reshape(like.shape)


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
    "nd one vector": ("nd", 0, floats(3, 4), np.array([2, 1], np.int32), floats()),
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
    "nd batch_dims": ("nd", 1, floats(3, 4, 2), ids(4, 3, 5, 1), floats(3, 5, 2)),
    "nd batch_dims 2": (
        "nd",
        2,
        floats(2, 3, 4, 2),
        ids(4, 2, 3, 5, 1),
        floats(2, 3, 5, 2),
    ),
}
# Rows 1 and 2, none, rows 3 and 4; the first and the last are in no segment.
CSR = {"csr": ("csr", 0, floats(3, 2), np.array([1, 3, 3, 5], np.int32), floats(6, 2))}
FORMS = ND | ALONG | ROWS | SEGMENTS | BATCHED | CSR

LINEAR = ("add", "subtract", "set", "fill")  # of duplicates the last is set
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
    "mean": "MEAN",
    "mean_non_zero": "MEAN_NON_ZERO",
    "sum_square": "SUM_SQUARE",
    "sum_log": "SUM_LOG",
    "l1_norm": "L1_NORM",
    "l2_norm": "L2_NORM",
    "log_sum_exp": "LOG_SUM_EXP",
    "log_sum": "LOG_SUM",
    "any": "ANY",
    "all": "ALL",
    "arg_max": "ARG_MAX",
    "arg_min": "ARG_MIN",
}
POSITIVE = ("sum_log", "log_sum")  # elsewhere their derivative is not plain JAX's
torch = {
    "add": "sum",
    "multiply": "prod",
    "mean": "mean",
    "max": "amax",
    "min": "amin",
}
segment = {
    "add": js.ops.segment_sum,
    "multiply": js.ops.segment_prod,
    "min": js.ops.segment_min,
    "max": js.ops.segment_max,
    "mean": js.ops.segment_mean,
    "variance": js.ops.segment_variance,
    "std": js.ops.segment_std,
    "normalize": js.ops.segment_normalize,
    "logsumexp": js.ops.segment_logsumexp,
    "softmax": js.ops.segment_softmax,
    "log_softmax": js.ops.segment_log_softmax,
    "argmax": js.ops.segment_argmax,
    "argmin": js.ops.segment_argmin,
    "any": js.ops.segment_any,
    "all": js.ops.segment_all,
    "max_or_constant": js.ops.segment_max_or_constant,
    "min_or_constant": js.ops.segment_min_or_constant,
}
unsorted_segment = {
    "add": js.tf.unsorted_segment_sum,
    "multiply": js.tf.unsorted_segment_prod,
    "min": js.tf.unsorted_segment_min,
    "max": js.tf.unsorted_segment_max,
    "mean": js.tf.unsorted_segment_mean,
    "sum_over_root": js.tf.unsorted_segment_sqrt_n,
}
pyg = {"add": "sum", "multiply": "mul", "min": "min", "max": "max", "mean": "mean"}
identity = {"add": 0, "multiply": 1, "min": np.inf, "max": -np.inf}


def _cases():
    def case(name, form, op, call, **params):
        kind, dim, x, i, u = FORMS[form]
        if op == "set":  # which duplicate wins is not said: give all the same value
            u = np.ones_like(u)
        if op == "fill":
            u = np.float32(2.5)
        if op in POSITIVE:
            x, u = abs(x), abs(u)

        def by_loops(x, i, u):
            if op == "fill":
                shape = (*x.shape[: dim % x.ndim], i.size, *x.shape[dim % x.ndim + 1 :])
                u = np.broadcast_to(u, shape)
            return oracle.scatter(kind, op, x, i, u, params, dim=dim)

        by_mask = None
        if op not in LINEAR:
            more = params | numbers(form, op)
            by_mask = lambda m, x, u: dense.scatter(op, m, x, u, **more)
        run = lambda x, i, u: call(dim, x, i, u)
        return Case(name, form, op, run, by_loops, by_mask, (x, i, u), (0, 2))

    def numbers(form, op):
        """For positions: the number of each update's index vector."""
        if op.replace("_", "") not in ("argmax", "argmin"):
            return {}
        kind, dim, _, i, u = FORMS[form]
        return {"numbers": oracle.row_numbers(kind, i.shape, u.shape, dim).ravel()}

    def from_nothing(name, form, op, call):
        kind, dim, x, i, u = FORMS[form]
        alone = {"include_self": False}

        def by_loops(x, i, u):
            if op == "mean":
                nothing = np.zeros(x.shape, u.dtype)
                return oracle.scatter(kind, op, nothing, i, u, alone, dim=dim)
            if op not in identity:
                out = oracle.segments(op, len(x), i, u, u.dtype)
                return out.astype(u.dtype)  # positions too, to be differentiated
            operand = np.full(x.shape, identity[op], u.dtype)
            return oracle.scatter(kind, op, operand, i, u, dim=dim)

        def by_mask(m, x, u):
            if op not in identity:
                return dense.segments(op, m, u, **numbers(form, op))
            return dense.scatter(op, m, np.full(x.shape, identity[op], u.dtype), u)

        by_mask = None if op in ("add", "mean") else by_mask
        return Case(name, form, op, call, by_loops, by_mask, (x, i, u), (2,))

    def gather(name, form, call):
        kind, dim, x, i, u = FORMS[form]

        def by_loops(x, i, u):
            shape = i.shape if kind == "along" else u.shape
            return oracle.gather(kind, x, i, shape, dim=dim)

        run = lambda x, i, u: call(dim, x, i)
        return Case(name, form, "gather", run, by_loops, None, (x, i, u), (0,))

    def whole(form):
        """What takes an index of rank 1, or of the shape of the updates."""
        dim = FORMS[form][1]
        for op in ("add", "multiply", "max", "arg_max", "l2_norm", "set"):
            run = lambda d, x, i, u, n=bnns[op]: js.bnns.scatter(d, n, u, i, x)
            yield case(f"bnns.scatter {bnns[op]}", form, op, run)
        yield gather("bnns.gather", form, lambda d, x, i: js.bnns.gather(d, x, i))
        for op, name in pyg.items():
            run = lambda x, i, u, n=name: js.pyg.scatter(u, i, dim, x.shape[dim], n)
            yield from_nothing(f"pyg.scatter {name}", form, op, run)

    for form in ND:
        for op, fun in tensor_scatter.items():
            run = lambda d, x, i, u, fun=fun: fun(x, i, u)
            yield case(f"tf.{fun.__name__}", form, op, run)
        for op, name in bnns.items():
            more = {"epsilon": 0.5} if op == "sum_log" else {}
            run = lambda d, x, i, u, n=name, m=more: js.bnns.scatter_nd(n, u, i, x, **m)
            yield case(f"bnns.scatter_nd {name}", form, op, run, **more)
        run = lambda x, i, u: js.tf.scatter_nd(i, u, x.shape)
        yield from_nothing("tf.scatter_nd", form, "add", run)
        yield gather("bnns.gather_nd", form, lambda d, x, i: js.bnns.gather_nd(x, i))
    for form in ND | BATCHED:
        yield gather("tf.gather_nd", form, lambda d, x, i: js.tf.gather_nd(x, i, d))
    for form in ALONG:
        run = lambda d, x, i, u: js.mint.scatter_add(x, d, i, u)
        yield case("mint.scatter_add", form, "add", run)
        for reduce in (None, "add", "multiply"):
            run = lambda d, x, i, u, r=reduce: js.mint.scatter(x, d, i, u, reduce=r)
            yield case(f"mint.scatter {reduce}", form, reduce or "set", run)
        yield gather("mint.gather", form, lambda d, x, i: js.mint.gather(x, d, i))
        if FORMS[form][3].shape == FORMS[form][4].shape:
            yield from whole(form)
    for form in ROWS:
        run = lambda d, x, i, u: js.mint.index_add(x, d, i, u)
        yield case("mint.index_add", form, "add", run)
        run = lambda d, x, i, u: js.mint.index_copy(x, d, i, u)
        yield case("mint.index_copy", form, "set", run)
        run = lambda d, x, i, u: js.mint.index_fill(x, d, i, u)
        yield case("mint.index_fill", form, "fill", run)
        run = lambda d, x, i: js.mint.index_select(x, d, i)
        yield gather("mint.index_select", form, run)
        yield from whole(form)
    for forms, fun in ((ALONG, js.mint.scatter_reduce), (ROWS, js.mint.index_reduce)):
        for op, name in torch.items():
            if (op, forms) == ("add", ROWS):
                continue
            for self in (True, False):
                run = lambda d, x, i, u, f=fun, n=name, s=self: f(
                    x, d, i, u, n, include_self=s
                )
                label = f"mint.{fun.__name__} {name}{'' if self else ' alone'}"
                for form in forms:
                    yield case(label, form, op, run, include_self=self)
    for form in SEGMENTS:
        for op, fun in (*segment.items(), *unsorted_segment.items()):
            run = lambda x, i, u, fun=fun: fun(u, i, x.shape[0]).astype(u.dtype)
            of = "tf" if fun.__name__.startswith("unsorted") else "ops"
            yield from_nothing(f"{of}.{fun.__name__}", form, op, run)
        run = lambda x, i, u: js.pyg.softmax(u, i, x.shape[0])
        yield from_nothing("pyg.softmax", form, "softmax", run)
        if form == "segments scalars":
            run = lambda x, i, u: js.ops.segment_count(i, x.shape[0]).astype(u.dtype)
            yield from_nothing("ops.segment_count", form, "count", run)
        yield gather("ops.take", form, lambda d, x, i: js.ops.take(x, i))
    for op, name in pyg.items():
        run = lambda x, i, u, n=name: js.pyg.segment_csr(u, i, n)
        yield from_nothing(f"pyg.segment_csr {name}", "csr", op, run)


SEGMENT = """sum prod min max mean variance std normalize logsumexp softmax
log_softmax""".split()  # those of ops.segment_* that have derivatives
BNNS = [op.name for op in js.bnns.ReduceFunction]

CASES = {f"{case.name} {case.form}": case for case in _cases()}
FUNCTIONS = sorted({case.name for case in CASES.values()})


def met(case) -> set[str]:
    """What a case stands for: a public function, a reduction, a form."""
    alone = case.name.endswith("alone")
    return {case.name.split()[0], f"{case.op}{' alone' * alone}", case.form}


def once() -> list[str]:
    """Case names that meet each of these at least once, first ones first."""
    left, chosen = set().union(*map(met, CASES.values())), []
    for key, case in CASES.items():
        if met(case) & left:
            chosen.append(key)
            left -= met(case)
    return chosen


ONCE = once()
# What is linear, and the first case of each derivative rule written by hand, meets all
# transformations in CI. The rest is composed of these, or is another spelling of the
# same reduction: in CI it meets fewer.
RULES = ("multiply", "max", "set", "l2_norm", "normalize", "logsumexp")
AGAIN = ("mint.scatter_reduce", "mint.index_reduce", "tf.unsorted_segment", "pyg.")
AGAIN += ("bnns.scatter ", "bnns.gather ")
_first = {case.op: key for key, case in reversed(CASES.items())}
RULE_KEYS = {
    *(k for k in ONCE if CASES[k].linear and not k.startswith(AGAIN)),
    *(_first[op] for op in RULES),
}


def _in_ci(keys):
    """All cases, with those of other keys marked for the full product only."""
    mark = lambda key: [] if key in keys else [pytest.mark.full]
    return [pytest.param(key, marks=mark(key)) for key in CASES]


KEYS, FEWER = _in_ci(ONCE), _in_ci(RULE_KEYS)


def weighted(fun):
    """A scalar loss of `fun` with non-zero derivatives of every order."""

    def loss(*args):
        out = fun(*args)
        out = jnp.where(jnp.isfinite(out), out, 0)  # empty cells of a maximum
        weights = jnp.arange(1, 1 + out.size, dtype=out.dtype).reshape(out.shape)
        return (jnp.sin(out) * weights).sum()

    return loss
