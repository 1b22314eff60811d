"""Scatters and gathers as NumPy loops that know no JAX: the tests' source of truth.

`sites` walks over the elements of updates and says where each goes; everything else is
built on it. Floats are combined in float64 and rounded once, integers as Python ints.
"""

import ml_dtypes
import numpy as np


def sites(form, shape, indices, dim=0, mode="drop", wrap=False):
    """Yields (index into updates, index into an operand of `shape` or None)."""
    indices = np.asarray(indices)
    shape = tuple(shape)
    if form == "nd":  # dim: batch_dims
        depth = indices.shape[-1]
        slices = shape[dim + depth :]
        for at in np.ndindex(*indices.shape[:-1]):
            start = _bounded(
                [int(k) for k in indices[at]], shape[dim : dim + depth], mode, wrap
            )
            for rest in np.ndindex(*slices):
                to = None if start is None else (*at[:dim], *start, *rest)
                yield (*at, *rest), to
    elif form == "along":
        dim %= len(shape)
        for at in np.ndindex(*indices.shape):
            start = _bounded([int(indices[at])], shape[dim : dim + 1], mode, wrap)
            yield at, None if start is None else (*at[:dim], *start, *at[dim + 1 :])
    else:  # rows, with indices of any rank
        dim %= len(shape)
        for before in np.ndindex(*shape[:dim]):
            for at in np.ndindex(*indices.shape):
                start = _bounded([int(indices[at])], shape[dim : dim + 1], mode, wrap)
                for after in np.ndindex(*shape[dim + 1 :]):
                    to = None if start is None else (*before, *start, *after)
                    yield (*before, *at, *after), to


def _bounded(index, sizes, mode, wrap):
    out = []
    for i, n in zip(index, sizes):
        if wrap and i < 0:
            i += n
        if mode == "clip":
            i = min(max(i, 0), n - 1)
        if not 0 <= i < n:
            return None
        out.append(i)
    return out


def received(form, operand, indices, updates, **where):
    """For each cell, the list of updates that reach it, in row-major order."""
    cells = {at: [] for at in np.ndindex(*operand.shape)}
    for u, o in sites(form, operand.shape, indices, **where):
        if o is not None:
            cells[o].append(updates[u])
    return cells


def scatter(form, op, operand, indices, updates, **where):
    """operand with updates combined into it. For "set" the last one wins."""
    out = np.array(operand)
    for cell, got in received(form, operand, indices, updates, **where).items():
        if got:
            out[cell] = combine(op, operand[cell], got, operand.dtype)
    return out


def combine(op, o, got, dtype):
    """One cell: `o` and what it received."""
    if op == "set":
        return got[-1]
    if np.dtype(dtype).kind == "b":
        fold = any if op in ("add", "max") else all
        return fold([bool(o), *map(bool, got)])
    exact = _exact(dtype)
    o, got = exact(o), [exact(g) for g in got]
    total, product = sum(got[1:], start=got[0]), got[0]
    for g in got[1:]:
        product = product * g
    if op in ("min", "max"):
        everything = [o, *got]
        nan = [v for v in everything if v != v]
        value = nan[0] if nan else (min if op == "min" else max)(everything)
    else:
        with np.errstate(all="ignore"):
            value = {
                "add": lambda: o + total,
                "subtract": lambda: o - total,
                "multiply": lambda: o * product,
                "divide": lambda: np.asarray(o) / np.asarray(product),
            }[op]()
    return _rounded(value, dtype)


def mean(form, num, indices, updates, dtype, **where):
    """The mean of the rows of each segment; 0 where there are none."""
    shape = (num, *updates.shape[np.ndim(indices) :])
    cells = received(form, np.zeros(shape), indices, updates, **where)
    out = np.zeros(shape, dtype)
    for cell, got in cells.items():
        if got:
            exact = _exact(dtype)
            out[cell] = _rounded(sum(exact(g) for g in got) / len(got), dtype)
    return out


def identity(op, dtype):
    """What a cell holds that receives nothing: rule 11."""
    dtype = np.dtype(dtype)
    if op not in ("min", "max"):
        return np.asarray(op in ("multiply", "divide")).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(op == "min")
    if _is_int(dtype):
        info = ml_dtypes.iinfo(dtype)
        return np.asarray(info.min if op == "max" else info.max).astype(dtype)
    infinity = np.asarray(-np.inf if op == "max" else np.inf).astype(dtype)
    if np.isinf(infinity.astype(np.float64)):
        return infinity
    info = ml_dtypes.finfo(dtype)  # the dtype has no infinity
    return np.asarray(info.min if op == "max" else info.max).astype(dtype)


def gather(form, operand, indices, updates_shape, **where):
    """The mirrored scatter: what stands where each update would go, 0 if dropped."""
    out = np.zeros(updates_shape, operand.dtype)
    for u, o in sites(form, operand.shape, indices, **where):
        if o is not None:
            out[u] = operand[o]
    return out


def matrix(fun, *args):
    """The matrices A with fun(*args) = sum of A_k @ args_k, found on unit vectors."""
    zeros = [np.zeros(a.shape) for a in args]
    out = []
    for k, a in enumerate(args):
        columns = []
        for at in np.ndindex(*a.shape):
            unit = np.zeros(a.shape)
            unit[at] = 1
            columns.append(fun(*zeros[:k], unit, *zeros[k + 1 :]).ravel())
        rows = fun(*zeros).size
        out.append(np.array(columns).reshape(a.size, rows).T)
    return out


def _is_int(dtype):
    return np.dtype(dtype).kind in "iu" or np.dtype(dtype).name in (
        "int2",
        "uint2",
        "int4",
        "uint4",
    )


def _exact(dtype):
    if _is_int(dtype):
        return int
    return complex if np.dtype(dtype).kind == "c" else float


def _rounded(value, dtype):
    if not _is_int(dtype):
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(dtype)
    name = np.dtype(dtype).name  # two's complement
    bits = int(name.removeprefix("u").removeprefix("int"))
    value %= 1 << bits
    if not name.startswith("u") and value >= 1 << (bits - 1):
        value -= 1 << bits
    return np.asarray(value).astype(dtype)
