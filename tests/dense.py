"""The reductions as dense reductions of plain jnp over a [cells, updates] mask.

Plain JAX differentiates these exactly, to any order: `prod` by products, `max` by
sharing ties. So they are the reference for derivatives; their values are compared with
the loops of `oracle`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import oracle


def mask(form, operand, indices, updates, **where):
    """Which update reaches which cell: bool [cells, updates], both flattened."""
    out = np.zeros((operand.size, updates.size), bool)
    cells = np.arange(operand.size).reshape(operand.shape)
    numbers = np.arange(updates.size).reshape(updates.shape)
    for u, o in oracle.sites(form, operand.shape, indices, **where):
        if o is not None:
            out[cells[o], numbers[u]] = True
    return out


def position(op, m, x, numbers, nothing):
    """The first extremum of each cell, as the number of its index vector."""
    low = -np.inf if op.endswith("max") else np.inf
    entries = jnp.where(m, x, low)
    first = getattr(jnp, op.replace("_", ""))(entries, 1)
    return jnp.where(m.any(1), jnp.asarray(numbers, x.dtype)[first], nothing)


def scatter(op, m, o, x, include_self=True, epsilon=0.0, numbers=None):
    """One reduction of o [cells] and x [updates] by the mask m."""
    count = m.sum(1)
    # The operand is one more column, which a cell may have to leave out.
    takes_part = np.full((len(m), 1), include_self) | (count == 0)[:, None]
    both = np.concatenate([takes_part, m], 1)
    x = jnp.where(m.any(0), x, 1)  # what is dropped may be NaN
    entries = jnp.concatenate([o[:, None], jnp.tile(x, (len(m), 1))], 1)
    of = lambda fill: jnp.where(both, entries, fill)
    received = lambda new: jnp.where(count > 0, new, o)
    total = lambda e: jnp.where(both, e, 0).sum(1)
    # Of cells that keep o no function is taken: it may not be differentiable there.
    live = lambda fill: jnp.where((count > 0)[:, None] & both, entries, fill)
    if op == "multiply":
        return of(1).prod(1)
    if op == "divide":
        return o / jnp.where(m, x, 1).prod(1)
    if op in ("max", "min"):
        return getattr(of(-np.inf if op == "max" else np.inf), op)(1)
    if op == "mean":
        return total(entries) / both.sum(1).astype(x.dtype)
    if op == "mean_non_zero":
        some = both & (entries != 0)
        n = jnp.maximum(some.sum(1), 1).astype(entries.dtype)
        return received(jnp.where(some, entries, 0).sum(1) / n)
    if op == "sum_square":
        return received(total(entries**2))
    if op == "l1_norm":
        return received(total(abs(entries)))
    if op == "l2_norm":
        squares = (live(0) ** 2).sum(1)
        return received(jnp.where(squares > 0, jnp.sqrt(_or_one(squares)), 0))
    if op == "sum_log":
        return received(jnp.log(live(1 - epsilon) + epsilon).sum(1))
    if op == "log_sum":
        return received(jnp.log(jnp.where(count > 0, live(0).sum(1), 1)))
    if op in ("any", "all"):
        truth = of(1 if op == "all" else 0).astype(bool)
        return received(getattr(truth, op)(1).astype(o.dtype))
    if op in ("arg_max", "arg_min"):
        return position(op, m, x, numbers, o)
    assert op == "log_sum_exp"
    return received(jax.nn.logsumexp(live(-1e9), 1))


def _or_one(x):
    return jnp.where(x > 0, x, 1)


def segments(op, m, x, ddof=0, eps=1e-5, numbers=None):
    """A reduction that starts from nothing; softmax ... give [updates]."""
    if op in ("argmax", "argmin"):
        return position(op, m, x, numbers, jnp.asarray(1 + numbers.max(), x.dtype))
    count = m.sum(1)
    if op == "count":
        return jnp.asarray(count, x.dtype)
    x = jnp.broadcast_to(jnp.where(m.any(0), x, 0), m.shape)
    if op in ("any", "all"):
        truth = jnp.where(m, x, 1 if op == "all" else 0).astype(bool)
        return getattr(truth, op)(1).astype(x.dtype)
    if op.endswith("_or_constant"):
        op = op[:3]
        entries = jnp.where(m, x, -np.inf if op == "max" else np.inf)
        return jnp.where(count > 0, getattr(entries, op)(1), 0)
    n = np.maximum(count, 1).astype(x.dtype)
    total = jnp.where(m, x, 0).sum(1)
    if op == "sum_over_root":
        return total / np.sqrt(n)
    deviations = jnp.where(m, x - (total / n)[:, None], 0)
    squares = (deviations**2).sum(1)
    fewer = np.maximum(count - ddof, 1).astype(x.dtype)
    variance = jnp.where(count > ddof, squares / fewer, 0)
    if op == "variance":
        return variance
    if op == "std":
        return jnp.where(variance > 0, jnp.sqrt(_or_one(variance)), 0)
    if op == "normalize":
        scale = jnp.sqrt(jnp.maximum(squares / n, eps))
        return (deviations / scale[:, None]).sum(0)
    largest = jax.lax.stop_gradient(jnp.where(m, x, -np.inf).max(1, keepdims=True))
    z = jnp.where(m, x - jnp.where(jnp.isinf(largest), 0, largest), 0)
    sums = jnp.where(m, jnp.exp(z), 0).sum(1, keepdims=True)
    log = jnp.log(_or_one(sums))
    if op == "softmax":
        return jnp.where(m, jnp.exp(z) / _or_one(sums), 0).sum(0)
    if op == "log_softmax":
        return jnp.where(m, z - log, 0).sum(0)
    assert op == "logsumexp"
    return jnp.where(count > 0, (log + largest)[:, 0], -np.inf)
