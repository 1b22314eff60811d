"""Hypothesis against the NumPy oracle: functions x options x dtypes x index dtypes.

Values are free; shapes come from a pool, since each new one costs a compilation. Each
test asserts what it drew, so that it cannot pass by drawing nothing of interest.
"""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

import jscatter as js

X64 = jax.config.jax_enable_x64
USUAL = "bool int8 int32 uint32 float32 bfloat16 float16 float8_e5m2 complex64".split()
RARE = """int2 uint2 int4 uint4 uint8 int16 uint16 float4_e2m1fn float8_e3m4 float8_e4m3
float8_e4m3fn float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz""".split()
if X64:
    USUAL = ["bool", "int32", "int64", "uint64", "float32", "float64", "complex128"]
    RARE = []
MINT_INDEX = ["int32", "int64"]
INDEX = [*MINT_INDEX, "int8", "uint8", "int16", "uint32", "uint64"]

SHAPES = [(), (4,), (0,), (130,), (3, 2), (3, 0), (2, 3, 2), (2, 2, 2, 2)]


def along_shapes(shape, dim):
    """(the index's shape, the source's): full, short in every dimension, empty."""
    at = dim % len(shape)
    with_ = lambda n, s=shape: (*s[:at], n, *s[at + 1 :])
    less = tuple(max(n - 1, min(n, 1)) for n in shape)
    more = lambda s: tuple(n + 1 for n in s)
    yield with_(shape[at] + 6), with_(shape[at] + 6)
    yield with_(5, less), more(with_(5, less))
    if dim == 0:
        yield with_(0), with_(3)


# nd: (operand's shape, K, the indices' batch); batched: (the same, batch_dims);
# along: (operand, dim, index, src); rows: (operand, dim, N);
# segments: (num_segments, the ids' shape, the features)
POOLS = {
    "nd": [
        (shape, depth, batch)
        for shape in SHAPES
        for depth in range(len(shape) + 1)
        for batch in ((8,), (3, 2), *(((), (0,)) if depth == 1 else ()))
    ],
    "batched": [
        (shape, depth, (*shape[:dims], *batch), dims)
        for shape in SHAPES
        for dims in range(1, min(3, len(shape)))
        for depth in range(len(shape) - dims + 1)
        for batch in ((5,), (2, 3), *(((), (0,)) if dims == 1 else ()))
    ],
    "along": [
        (shape, dim, *index_and_src)
        for shape in SHAPES[1:]
        for dim in range(-1, len(shape) - 1)
        for index_and_src in along_shapes(shape, dim)
    ],
    "rows": [
        (shape, dim, n)
        for shape in SHAPES[1:]
        for dim in range(-1, len(shape) - 1)
        for n in (5, 8, *((0,) if dim == 0 else ()))
    ],
    "segments": [
        *(
            (num, ids, features)
            for num, ids in (
                (4, (8,)),
                (2, (2, 3)),
                (5, (12,)),
                (3, (9,)),
                (1, (4,)),
                (130, (7,)),
            )
            for features in ((), (3,), (2, 2), (1, 2), (5,))
        ),
        *((num, ids, ()) for num, ids in ((4, (0,)), (0, (3,)), (3, ()))),
        *((num, ids, (2,)) for num, ids in ((4, (0,)), (0, (3,)), (3, ()))),
        (4, (5,), (0,)),
    ],
}


# For each usual dtype and family; half of it for a rare one: at least 20 in sum.
EXAMPLES = {"nd": 30, "batched": 8, "along": 30, "rows": 28, "segments": 32}
if X64:  # fewer dtypes, and some functions take few of them
    EXAMPLES = {family: n * 5 // 4 for family, n in EXAMPLES.items()}


TORCH = dict(sum="add", prod="multiply", mean="mean", amax="max", amin="min")
# What starts from nothing, and: what is no exact arithmetic in any dtype.
STATISTICS = {"variance", "std", "normalize", "logsumexp", "softmax", "log_softmax"}
STATISTICS |= {"sum_over_root", "argmax", "argmin"}
INEXACT = {
    *STATISTICS,
    "l2_norm",
    "log_sum_exp",
    "log_sum",
    "sum_log",
    "mean",
    "divide",
}
INEXACT |= {"mean_non_zero"}


# Names in the table of functions of segments -> what they take beside.
MORE = {"variance of a sample": dict(ddof=1), "std of a sample": dict(ddof=1)}
MORE |= {"variance of ddof 3": dict(ddof=3), "normalize with eps": dict(eps=0.5)}


# With a result that is no float, or the data's dtype: no arithmetic.
PLAIN = {"any": "bool", "all": "bool", "count": "int32"}
PLAIN |= {"max_or_constant": None, "min_or_constant": None}
MORE |= {"max_or_constant 2": dict(constant=1), "min_or_constant 2": dict(constant=1)}
PYG = dict(sum="add", mul="multiply", mean="mean", min="min", max="max")


def of(u, more):
    """Bools take no Python int."""
    return {k: bool(v) for k, v in more.items()} if u.dtype == bool else more


def one(u):
    return u.ravel()[0] if u.size else u.dtype.type(0)


def whole(apple):
    """What takes an index of rank 1, or of the shape of the updates."""
    table = {}
    for name, op in apple.items():
        more = {"epsilon": 9.0} if name == "SUM_LOG" else {}
        run = lambda x, p, i, u, o, n=name, m=more: js.bnns.scatter(
            p[1], n, u, i, x, **m, **o
        )
        table[f"bnns.scatter {name}"] = (op, run)
    for name, op in PYG.items():
        run = lambda x, p, i, u, o, n=name: js.pyg.scatter(
            u, i, p[1], x.shape[p[1]], n, **o
        )
        table[f"pyg.scatter {name}"] = (op, run)
    run = lambda x, p, i, u, o: js.bnns.gather(p[1], x, i, **o)
    return table | {"bnns.gather": ("gather", run)}


def pool(family, name):
    """The shapes that a function takes."""
    if family == "along" and name.startswith(("bnns.scatter", "pyg")):
        return [p for p in POOLS[family] if p[2] == p[3]]
    return POOLS[family]


def alpha(dtype):
    return 3 if dtype.name.startswith("u") else -2


def functions(family):
    """Name -> (op, run(operand, place, indices, updates, options))."""
    tf, mint, bnns, ops = js.tf, js.mint, js.bnns, js.ops
    apple = {"SUM": "add", "PRODUCT": "multiply", "NONE": "set"}
    for name in "MAX MIN ARG_MAX ARG_MIN MEAN MEAN_NON_ZERO SUM_SQUARE".split():
        apple[name] = name.lower()
    for name in "L1_NORM ANY ALL L2_NORM LOG_SUM_EXP LOG_SUM SUM_LOG".split():
        apple[name] = name.lower()
    if family == "nd":
        names = "add sub mul div min max update".split()
        kinds = "add subtract multiply divide min max set".split()
        table = {}
        for name, op in zip(names, kinds):
            fun = getattr(tf, f"tensor_scatter_nd_{name}")
            run = lambda x, p, i, u, o, fun=fun: fun(x, i, u, **o)
            table[fun.__name__] = (op, run)
        for name, op in apple.items():
            more = {"epsilon": 9.0} if name == "SUM_LOG" else {}
            run = lambda x, p, i, u, o, n=name, m=more: bnns.scatter_nd(
                n, u, i, x, **m, **o
            )
            table[f"bnns {name}"] = (op, run)
        run = lambda x, p, i, u, o: tf.scatter_nd(i, u, x.shape, **o)
        table["scatter_nd"] = ("from zeros", run)
        table["gather_nd"] = ("gather", lambda x, p, i, u, o: tf.gather_nd(x, i, **o))
        run = lambda x, p, i, u, o: bnns.gather_nd(x, i, **o)
        return table | {"bnns.gather_nd": ("gather", run)}
    if family == "batched":
        run = lambda x, p, i, u, o: tf.gather_nd(x, i, p[3], **o)
        return {"gather_nd": ("gather", run)}
    if family == "along":
        run = lambda x, p, i, u, o: mint.scatter_add(x, p[1], i, u, **o)
        table = {"scatter_add": ("add", run)}
        for reduce, op in ((None, "set"), ("add", "add"), ("multiply", "multiply")):
            run = lambda x, p, i, u, o, r=reduce: mint.scatter(
                x, p[1], i, u, reduce=r, **o
            )
            table[f"scatter {reduce}"] = (op, run)
            run = lambda x, p, i, u, o, r=reduce: mint.scatter(
                x, p[1], i, one(u), reduce=r, **o
            )
            table[f"scatter {reduce} scalar"] = (op, run)
        for reduce, op in TORCH.items():
            for both in (True, False):
                run = lambda x, p, i, u, o, r=reduce, b=both: mint.scatter_reduce(
                    x, p[1], i, u, r, include_self=b, **o
                )
                table[f"scatter_reduce {reduce}{' alone' * (not both)}"] = (op, run)
        run = lambda x, p, i, u, o: mint.gather(x, p[1], i, **o)
        return table | {"gather": ("gather", run)} | whole(apple)
    if family == "rows":
        add = lambda x, p, i, u, o: mint.index_add(x, p[1], i, u, **o)
        scaled = lambda x, p, i, u, o: mint.index_add(
            x, p[1], i, u, alpha=alpha(x.dtype), **o
        )
        take = lambda x, p, i, u, o: mint.index_select(x, p[1], i, **o)
        table = {}
        for reduce, op in list(TORCH.items())[1:]:
            for both in (True, False):
                run = lambda x, p, i, u, o, r=reduce, b=both: mint.index_reduce(
                    x, p[1], i, u, r, include_self=b, **o
                )
                table[f"index_reduce {reduce}{' alone' * (not both)}"] = (op, run)
        copy = lambda x, p, i, u, o: mint.index_copy(x, p[1], i, u, **o)
        fill = lambda x, p, i, u, o: mint.index_fill(x, p[1], i, one(u), **o)
        return table | {
            "index_copy": ("set", copy),
            "index_fill": ("fill", fill),
            **whole(apple),
            "index_add": ("add", add),
            "index_add alpha": ("scaled", scaled),
            "index_select": ("gather", take),
        }
    table = {}
    kinds = dict(sum="add", prod="multiply", min="min", max="max", mean="mean")
    kinds |= {n: n for n in "variance std normalize argmax argmin".split()}
    kinds |= {n: n for n in "logsumexp softmax log_softmax".split()}
    for name, op in kinds.items():
        fun = getattr(ops, f"segment_{name}")
        run = lambda x, p, i, u, o, fun=fun: fun(u, i, p[0], **o)
        table[fun.__name__] = (op, run)
        if name in "sum prod min max mean":
            fun = getattr(tf, f"unsorted_segment_{name}")
            run = lambda x, p, i, u, o, fun=fun: fun(u, i, p[0], **o)
            table[fun.__name__] = (op, run)
    for op in PLAIN:
        fun = getattr(ops, f"segment_{op}")
        run = lambda x, p, i, u, o, fun=fun: fun(u, i, p[0], **o)
        table[fun.__name__] = (op, run)
    count = lambda x, p, i, u, o: ops.segment_count(i, p[0], **o)
    table["segment_count"] = ("count", count)
    softmax = lambda x, p, i, u, o: js.pyg.softmax(u, i, p[0], **o)
    table["pyg.softmax"] = ("softmax", softmax)
    for name, op in (("sum", "add"), ("prod", "multiply")):
        fun = getattr(ops, f"segment_{name}")
        run = lambda x, p, i, u, o, fun=fun: fun(u, i, p[0], bucket_size=3, **o)
        table[f"{fun.__name__} of buckets"] = (op, run)
    for name, more in MORE.items():
        op = name.split()[0]
        fun = getattr(ops, f"segment_{op}")
        run = lambda x, p, i, u, o, f=fun, m=more: f(u, i, p[0], **of(u, m), **o)
        table[name] = (op, run)
    run = lambda x, p, i, u, o: tf.unsorted_segment_sqrt_n(u, i, p[0], **o)
    table["unsorted_segment_sqrt_n"] = ("sum_over_root", run)
    return table | {"take": ("gather", lambda x, p, i, u, o: ops.take(x, i, **o))}


def shapes(family, place):
    """(operand's shape, indices' shape, updates' shape, the oracle's form, its dim)."""
    if family == "nd":
        shape, depth, batch = place
        return shape, (*batch, depth), batch + shape[depth:], "nd", 0
    if family == "batched":
        shape, depth, batch, dims = place
        return shape, (*batch, depth), batch + shape[dims + depth :], "nd", dims
    if family == "along":
        shape, dim, index, src = place
        return shape, index, src, "along", dim
    if family == "rows":
        shape, dim, n = place
        at = dim % len(shape)
        return shape, (n,), (*shape[:at], n, *shape[at + 1 :]), "rows", dim
    num, ids, features = place
    return (num, *features), ids, ids + features, "rows", 0


def draw_values(rng, shape, dtype, op):
    """Values whose sums and products are exact in every dtype here."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if op in ("multiply", "divide"):
        choice = [1, 1, 3, 2] if dtype.startswith("u") else [1, 1, -1, -2]
        if "complex" in dtype:
            choice = [1, -1, 1j, 1 + 1j]
        return rng.choice(choice, shape).astype(jnp.dtype(dtype))
    values = rng.integers(0, 4, shape)
    if not dtype.startswith("u"):
        values = values - 2
    if "complex" in dtype:
        values = values + 1j * rng.integers(-2, 2, shape)
    return values.astype(jnp.dtype(dtype))


def draw_indices(rng, shape, sizes, dtype):
    """In range with many duplicates, one beside the range, far away.

    sizes: of the axes that the components name, or of the one axis.
    """
    dtype, sizes = np.dtype(dtype), np.asarray(sizes)
    rows = np.clip(sizes, 1, rng.choice([1, 2, 3, 130]))
    indices = rng.integers(0, 130, shape) % rows
    where = rng.random(shape)
    far = rng.choice([2**40 + 1, -(2**40), 2**31, 127, -128, 300], shape)
    indices = np.where(where < 0.1, sizes, np.where(where > 0.93, -1, indices))
    indices = np.where((where > 0.1) & (where < 0.16), far, indices)
    info = np.iinfo(dtype)
    return np.clip(indices, info.min, info.max).astype(dtype)


PROMISES = {"indices_are_sorted", "unique_indices"}


def kept_promises(rng, form, i, sizes, dim):
    """Indices that keep some promises, and all options that promise what they keep."""
    if rng.random() < 0.5:  # in bounds
        i = np.clip(i, 0, np.maximum(np.asarray(sizes) - 1, 0)).astype(i.dtype)
    axis = dim if form == "along" or (form == "nd" and dim) else 0
    if i.ndim - (form == "nd") == 1 or axis == dim != 0:
        i = np.sort(i, axis)
    lanes = oracle.lanes(form, i, dim)
    sizes = np.broadcast_to(sizes, i.shape[-1:] if form == "nd" else (1,))
    inside = all(0 <= k < n for lane in lanes for v in lane for k, n in zip(v, sizes))
    options = {"mode": "drop"}
    if inside:
        options["mode"] = rng.choice(["promise_in_bounds", "error"]).item()
    if all(lane == sorted(lane) for lane in lanes):
        options["indices_are_sorted"] = True
    if all(len(set(lane)) == len(lane) for lane in lanes):
        options["unique_indices"] = True
    return i, options


def refused(op, dtype):
    """Whether rule 5 makes it a TypeError; test_validate has the texts."""
    roots = {"l2_norm", "log_sum_exp", "log_sum", "sum_log"}
    if dtype == "bool":
        more = {"subtract", "scaled", "sum_square", "l1_norm", "arg_max", "arg_min"}
        return op in (INEXACT | more) - {"argmax", "argmin"}
    if "complex" in dtype:
        more = {"min", "max", "l1_norm", "arg_max", "arg_min"}
        more |= {"max_or_constant", "min_or_constant"}
        return op in STATISTICS | roots | more
    return "int" in dtype and op in roots | {"divide", "mean_non_zero"}


def expected(name, op, family, x, i, u, where):
    form = where.pop("form")
    if op == "gather":
        return oracle.gather(form, x, i, u.shape, **where)
    if op == "from zeros":
        return oracle.scatter(form, "add", np.zeros_like(x), i, u, **where)
    if op == "scaled":
        kind = "O" if "int" in x.dtype.name else "D" if x.dtype.kind == "c" else "d"
        scaled = alpha(x.dtype) * u.astype(kind)
        return oracle.scatter(form, "add", x, i, scaled, **where)
    if family == "segments" and op in PLAIN:
        dtype, more = PLAIN[op] or u.dtype, MORE.get(name, {})
        u = np.zeros(i.shape) if op == "count" else u
        return oracle.segments(op, x.shape[0], i, u, dtype, **where, **more)
    if name.startswith("pyg.scatter"):
        x = np.full(x.shape, oracle.identity(op, x.dtype))
        more = {"include_self": False}
        return oracle.scatter(form, op, x, i, u, more, **where)
    if family == "segments" and (op in STATISTICS or op == "mean"):
        dtype = jnp.result_type(float) if "int" in u.dtype.name else u.dtype
        return oracle.segments(
            op, x.shape[0], i, u, dtype, **where, **MORE.get(name, {})
        )
    params = {"epsilon": 9.0} if op == "sum_log" else {}
    if name.endswith("alone"):
        params["include_self"] = False
    return oracle.scatter(form, op, x, i, u, params, **where)


def check(got, want, op, form, x, i, u, where):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape
    if op == "set":  # any of the updates that reach a cell
        for cell, given_ in oracle.received(form, x, i, u, **where).items():
            assert got[cell] in (given_ or [x[cell]])
    elif op in INEXACT and jnp.issubdtype(want.dtype, jnp.inexact):
        # XLA on CPU may multiply by a reciprocal, which costs the last place; of the
        # others a narrow result may be the next number (test_magnitudes is stricter).
        eps = float(jnp.finfo(want.dtype).eps)
        exact = op in ("mean", "divide", "mean_non_zero")
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        narrow = eps > 1e-6
        tol = eps * (0 if exact and narrow else 2 if exact else 1 if narrow else 20)
        got, want = got.astype(wide), want.astype(wide)
        np.testing.assert_allclose(got, want, rtol=tol, atol=0 if exact else tol)
    else:
        if want.dtype.kind == "V" and jnp.issubdtype(want.dtype, jnp.inexact):
            got, want = got.astype(np.float64), want.astype(np.float64)  # NaN is NaN
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("family", POOLS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_against_loops(family, pytestconfig):
    table = functions(family)
    seen = collections.Counter()
    many = 10 if pytestconfig.getoption("--full") else 1
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]

    least = {d: EXAMPLES[family] // (1 if d in USUAL else 2) for d in USUAL + RARE}
    for s, dtype in enumerate(least):

        @seed(s)  # reproducible, and not the same draws for each dtype
        @settings(
            max_examples=many * least[dtype],
            deadline=None,
            database=None,
            suppress_health_check=quiet,
        )
        @given(st.data())
        def run(data):
            usable = [n for n in table if not refused(table[n][0], dtype)]
            name = min(usable, key=lambda n: seen[n])  # each in its turn
            note(f"{name} of {dtype}")
            number = data.draw(st.sampled_from(range(len(POOLS[family]))))
            places = pool(family, name)  # which name it is Hypothesis does not know
            place = places[number % len(places)]
            mode = data.draw(st.sampled_from(["drop", "drop", "clip", "promises"]))
            wrap = data.draw(st.booleans())
            index = MINT_INDEX if family in ("along", "rows") else INDEX
            index_dtype = data.draw(st.sampled_from(index))
            rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))

            op, fun = table[name]
            shape, i_shape, u_shape, form, dim = shapes(family, place)
            x = draw_values(rng, shape, dtype, op)
            u = draw_values(rng, u_shape, dtype, op)
            if op in ("multiply", "divide", "min", "max") and family == "segments":
                x = np.full(shape, oracle.identity(op, u.dtype))
            elif family == "segments" and op != "gather":
                x = np.zeros_like(x)
            sizes = shape[dim : dim + place[1]] if form == "nd" else shape[dim]
            i = draw_indices(rng, i_shape, sizes, index_dtype)
            options = dict(mode=mode, wrap_negative_indices=wrap)
            if mode == "promises":
                i, options = kept_promises(rng, form, i, sizes, dim)
                mode, wrap = "drop", False
            where = dict(dim=dim, mode=mode, wrap=wrap)
            if name.endswith("scalar"):
                u = np.full(i_shape, one(u))
            if op == "fill":
                u = np.full(u_shape, one(u))
            if op == "gather" and form == "along":
                u = u[tuple(slice(n) for n in i_shape)]

            got = fun(x, place, i, u, options)
            want = expected(name, op, family, x, i, u, where | {"form": form})
            check(got, want, op, form, x, i, u, where)

            targets = [o for _, o in oracle.sites(form, shape, i, **where)]
            inside = [o for o in targets if o is not None]
            seen["all"] += 1
            seen[dtype] += 1
            seen[name] += 1
            seen["duplicates"] += len(set(inside)) < len(inside)
            seen["outside"] += not ((0 <= i) & (i < np.asarray(sizes))).all()
            seen["empty"] += 0 in (x.size, u.size)
            seen["promises"] += len(options.keys() & PROMISES)

        run()

    assert all(seen[dtype] >= n for dtype, n in least.items())
    assert all(seen[name] >= 5 for name in table)
    assert seen["duplicates"] >= seen["all"] / 2
    assert seen["outside"] >= seen["all"] / 3
    assert seen["empty"] >= seen["all"] / 10
    assert seen["promises"] >= seen["all"] / 10


def test_each_dtype_is_met_often_enough():
    assert sum(n // 2 for n in EXAMPLES.values()) >= 20
    each = [n * len(USUAL) + n // 2 * len(RARE) for n in EXAMPLES.values()]
    assert X64 or sum(each) >= 2000
    assert all(len(pool) >= 30 for pool in POOLS.values())
