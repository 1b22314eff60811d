"""Scatters and gathers as NumPy loops that know no JAX: the tests' source of truth.

`sites` walks over the elements of updates and says where each goes; everything else is
built on it. Floats are combined in float64 and rounded once, integers as Python ints.
"""

import math

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
    elif form == "csr":  # row n belongs to the k with indices[k] <= n < indices[k + 1]
        for n in range(max(indices)):
            k = sum(int(i) <= n for i in indices) - 1
            for rest in np.ndindex(*shape[1:]):
                yield (n, *rest), (k, *rest) if 0 <= k < shape[0] else None
    else:  # rows, with indices of any rank
        dim %= len(shape)
        for before in np.ndindex(*shape[:dim]):
            for at in np.ndindex(*indices.shape):
                start = _bounded([int(indices[at])], shape[dim : dim + 1], mode, wrap)
                for after in np.ndindex(*shape[dim + 1 :]):
                    to = None if start is None else (*before, *start, *after)
                    yield (*before, *at, *after), to


def lanes(form, indices, dim=0):
    """The index vectors, as tuples in order, of each lane that promises are made in."""
    indices = np.asarray(indices)
    batch = indices.shape[:-1] if form == "nd" else indices.shape
    out = {}
    for at in np.ndindex(*batch):
        if form == "nd":
            lane, index = at[:dim], tuple(map(int, indices[at]))
        else:
            lane, index = (), (int(indices[at]),)
        if form == "along":
            d = dim % indices.ndim
            lane = at[:d] + at[d + 1 :]
        out.setdefault(lane, []).append(index)
    return list(out.values())


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


def scatter(form, op, operand, indices, updates, params=None, **where):
    """operand with updates combined into it. For "set" the last one wins."""
    out = np.array(operand)
    if op in ("arg_max", "arg_min"):
        return _positions(form, op, out, indices, updates, **where)
    for cell, got in received(form, operand, indices, updates, **where).items():
        if got:
            out[cell] = combine(op, operand[cell], got, operand.dtype, **(params or {}))
    return out


def combine(op, o, got, dtype, include_self=True, epsilon=0.0):
    """One cell: `o` and what it received."""
    if op in ("set", "fill"):
        return got[-1]
    entries = [o, *got] if include_self else got
    if op in ("any", "all"):
        return np.asarray((any if op == "any" else all)(entries)).astype(dtype)
    if np.dtype(dtype).kind == "b":
        fold = any if op in ("add", "max") else all
        return fold(map(bool, entries))
    exact = _exact(dtype)
    o, got, entries = exact(o), [exact(g) for g in got], [exact(e) for e in entries]
    with np.errstate(all="ignore"):
        if op == "subtract":
            value = o - sum(got)
        elif op == "divide":
            value = np.asarray(o) / np.asarray(_product(got))
        else:
            value = _reduced(op, entries, epsilon, _is_int(dtype))
    return _rounded(value, dtype)


def _product(entries):
    out = entries[0]
    for e in entries[1:]:
        out = out * e
    return out


def _reduced(op, entries, epsilon, whole):
    total = sum(entries[1:], start=entries[0])
    if op == "add":
        return total
    if op == "multiply":
        return _product(entries)
    if op in ("min", "max"):
        nan = [v for v in entries if v != v]
        return nan[0] if nan else (min if op == "min" else max)(entries)
    if op == "mean":
        return total // len(entries) if whole else total / len(entries)
    if op == "mean_non_zero":
        return total / max(sum(e != 0 for e in entries), 1)
    if op == "sum_square":
        return sum(e * e for e in entries)
    if op == "l1_norm":
        return sum(abs(e) for e in entries)
    if op == "l2_norm":
        return math.hypot(*entries)
    if op == "sum_log":
        return sum(np.log(np.float64(e) + epsilon) for e in entries)
    if op == "log_sum":
        return np.log(np.float64(total))
    assert op == "log_sum_exp"
    return _log_sum_exp(entries)


def _log_sum_exp(entries):
    largest = max(entries)
    if math.isinf(largest) or math.isnan(sum(entries)):
        return largest if not math.isnan(sum(entries)) else math.nan
    return largest + math.log(sum(math.exp(e - largest) for e in entries))


def _positions(form, op, out, indices, updates, nothing=None, **where):
    """The row-major place of each cell's first extremum (of NaN: the first NaN)."""
    number = row_numbers(form, np.shape(indices), updates.shape, where.get("dim", 0))
    best = {}
    for u, o in sites(form, out.shape, indices, **where):
        if o is None:
            continue
        value, held = updates[u], best.get(o)
        better = held is None or (
            not _is_nan(held[0])
            and (
                _is_nan(value)
                or (value > held[0] if op.endswith("max") else value < held[0])
            )
        )
        if better:
            best[o] = value, number[u]
    for cell in np.ndindex(*out.shape):
        if cell in best:
            out[cell] = _rounded(int(best[cell][1]), out.dtype)
        elif nothing is not None:
            out[cell] = nothing
    return out


def _is_nan(x):
    return bool(x != x)


def row_numbers(form, indices_shape, updates_shape, dim):
    """For each element of updates the row-major position of its index vector.

    Along `dim` positions count within the lane, as everything else does.
    """
    if form == "along":
        dim %= len(updates_shape)
        return np.broadcast_to(
            np.arange(updates_shape[dim]).reshape(
                [-1 if d == dim else 1 for d in range(len(updates_shape))]
            ),
            updates_shape,
        )
    batch = indices_shape[:-1] if form == "nd" else indices_shape
    before = () if form == "nd" else updates_shape[: dim % max(len(updates_shape), 1)]
    numbers = np.arange(math.prod(batch)).reshape(batch)
    after = len(updates_shape) - len(before) - len(batch)
    numbers = numbers.reshape((1,) * len(before) + tuple(batch) + (1,) * after)
    return np.broadcast_to(numbers, updates_shape)


def segments(op, num, indices, updates, dtype, ddof=0, eps=1e-5, constant=0, **where):
    """A reduction that starts from nothing, of ids of any rank; softmax ... by row."""
    shape = (num, *updates.shape[np.ndim(indices) :])
    if op in ("argmax", "argmin"):
        empty, size = np.zeros(shape, np.int32), np.size(indices)
        return _positions("rows", op, empty, indices, updates, nothing=size, **where)
    exact = bool if op in ("any", "all") else _exact(dtype)
    cells = received("rows", np.zeros(shape), indices, updates, **where)
    cells = {cell: [exact(g) for g in got] for cell, got in cells.items()}
    if op in ("softmax", "log_softmax", "normalize"):
        out = np.zeros(updates.shape, dtype)
        for u, o in sites("rows", shape, indices, **where):
            if o is not None:
                out[u] = _rounded(_share(op, exact(updates[u]), cells[o], eps), dtype)
        return out
    out = np.full(shape, {"logsumexp": -np.inf, "all": 1}.get(op, constant), dtype)
    for cell, got in cells.items():
        if got:
            out[cell] = _rounded(_statistic(op, got, ddof), dtype)
    return out


def _statistic(op, got, ddof):
    mean = sum(got) / len(got)
    if op == "mean":
        return mean
    if op in ("any", "all"):
        return (any if op == "any" else all)(got)
    if op == "count":
        return len(got)
    if op.endswith("_or_constant"):
        return _reduced(op[:3], got, 0, False)
    if op == "sum_over_root":
        return sum(got) / math.sqrt(len(got))
    if op == "logsumexp":
        return _log_sum_exp(got)
    if len(got) <= ddof:
        return 0.0
    root = math.hypot(*(g - mean for g in got)) / math.sqrt(len(got) - ddof)
    return root if op == "std" else root**2


def _share(op, x, got, eps):
    if op == "normalize":
        return (x - sum(got) / len(got)) / math.sqrt(
            max(_statistic("variance", got, 0), eps)
        )
    total = _log_sum_exp(got)
    if math.isnan(total):
        return math.nan
    if math.isinf(total):  # the limit: all weight on +inf
        share = 1 / got.count(math.inf) if x == math.inf else 0.0
    else:
        return math.exp(x - total) if op == "softmax" else x - total
    return share if op == "softmax" else (math.log(share) if share else -math.inf)


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
