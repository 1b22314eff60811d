"""Rules of meaning, one by one: bounds, index dtypes, half precision, empties, NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscatter as js

HALF = [jnp.bfloat16, jnp.float16]
X64 = jax.config.jax_enable_x64


# -- half precision --------------------------------------------------------------------

N = 5000
ROUNDED = {jnp.bfloat16: 4992.0, jnp.float16: 5000.0}  # 5000 to nearest: 8 and 11 bits
ZERO_IDS = np.zeros(N, np.int32)


def gathers(ids):
    yield lambda t: js.ops.take(t, ids)
    yield lambda t: js.tf.gather_nd(t, ids[:, None])
    yield lambda t: js.mint.index_select(t, 0, ids)
    yield lambda t: js.mint.gather(t, 0, ids)
    yield lambda t: js.bnns.gather_nd(t, ids[:, None])


def sums(ids, like):
    zeros = jnp.zeros(2, like)
    yield lambda u: js.ops.segment_sum(u, ids, 2)
    yield lambda u: js.tf.scatter_nd(ids[:, None], u, (2,))
    yield lambda u: js.tf.tensor_scatter_nd_add(zeros, ids[:, None], u)
    yield lambda u: -js.tf.tensor_scatter_nd_sub(zeros, ids[:, None], u)
    yield lambda u: js.mint.scatter_add(zeros, 0, ids, u)
    yield lambda u: js.mint.scatter(zeros, 0, ids, u, reduce="add")
    yield lambda u: js.mint.index_add(zeros, 0, ids, u)
    yield lambda u: js.bnns.scatter_nd("sum", u, ids[:, None], zeros)


@pytest.mark.parametrize("dtype", HALF)
def test_sums_of_5000_ones(dtype):
    ones = jnp.ones(N, dtype)
    for f in sums(ZERO_IDS, dtype):
        assert f(ones).dtype == dtype and float(f(ones)[0]) == ROUNDED[dtype]
        _, tangent = jax.jvp(f, (ones,), (ones,))
        assert float(tangent[0]) == ROUNDED[dtype]
        mapped = jax.vmap(f, 1, 1)(jnp.ones((N, 3), dtype))
        assert float(mapped[0, 2]) == ROUNDED[dtype]
    add = lambda i, u: js.ops.segment_sum(u, i, 2)
    both = jax.vmap(add)(np.stack([ZERO_IDS, ZERO_IDS]), jnp.ones((2, N), dtype))
    assert float(both[1, 0]) == ROUNDED[dtype]


@pytest.mark.parametrize("dtype", HALF)
def test_gradients_of_gathers_of_5000_ones(dtype):
    table = jnp.ones(2, dtype)
    for f in gathers(ZERO_IDS):
        gradient = jax.vjp(f, table)[1](jnp.ones(N, dtype))[0]
        assert gradient.dtype == dtype and float(gradient[0]) == ROUNDED[dtype]
        square = lambda t: (f(t) ** 2).sum()
        product = jax.jvp(jax.grad(square), (table,), (table,))[1]
        assert float(product[0]) == float(jnp.asarray(2 * N, dtype))
    ids, tables = np.stack([ZERO_IDS, ZERO_IDS]), jnp.ones((2, 2), dtype)
    both = lambda t: jax.vmap(js.ops.take)(t, ids)
    gradient = jax.vjp(both, tables)[1](jnp.ones((2, N), dtype))[0]
    assert float(gradient[1, 0]) == ROUNDED[dtype]
    tables_only = lambda t: jax.vmap(lambda t: js.ops.take(t, ZERO_IDS))(t)
    gradient = jax.vjp(tables_only, tables)[1](jnp.ones((2, N), dtype))[0]
    assert float(gradient[1, 0]) == ROUNDED[dtype]
    ids_only = lambda t: jax.vmap(lambda i: js.ops.take(t, i))(ids[:, : N // 2])
    gradient = jax.vjp(ids_only, tables[0])[1](jnp.ones((2, N // 2), dtype))[0]
    assert float(gradient[0]) == ROUNDED[dtype]


@pytest.mark.parametrize("dtype", [*HALF, jnp.float8_e5m2, jnp.float8_e4m3fn])
def test_one_rounding_per_call(dtype):
    """1 + k tiny: each addition in the narrow dtype would lose the tiny part."""
    tiny = float(jnp.finfo(dtype).eps) / 4
    updates = jnp.concatenate([jnp.ones(1, dtype), jnp.full(64, tiny, dtype)])
    ids = np.zeros(65, np.int32)
    want = jnp.asarray(1 + 64 * float(updates[1]), dtype)
    assert js.ops.segment_sum(updates, ids, 1)[0] == want
    start = jnp.ones(1, dtype)
    assert js.mint.index_add(start, 0, ids[1:], updates[1:])[0] == want
    # the mean, a product and a quotient too
    mean = jnp.asarray((1 + 64 * float(updates[1])) / 65, dtype)
    assert js.ops.segment_mean(updates, ids, 1)[0] == mean
    step = 1 + float(jnp.finfo(dtype).eps)
    factors = jnp.full(8, step, dtype)
    power = np.float32(step) ** 8
    got = js.ops.segment_prod(factors, ids[:8], 1)[0]
    assert got == jnp.asarray(power, dtype)
    got = js.tf.tensor_scatter_nd_div(jnp.ones(1, dtype), ids[:8, None], factors)[0]
    assert got == jnp.asarray(1 / power, dtype)


def test_a_mean_is_not_rounded_before_the_division():
    """257 is no bfloat16: a rounded sum would give 256 / 257."""
    ones = jnp.ones(257, jnp.bfloat16)
    assert js.ops.segment_mean(ones, np.zeros(257, np.int32), 1)[0] == 1
    # Neither sum nor count may round: here the two errors do not cancel.
    for dtype, n in ((jnp.bfloat16, 259), (jnp.float16, 2051), (jnp.float8_e4m3fn, 19)):
        threes = jnp.full(n, 3, dtype)
        assert js.ops.segment_mean(threes, np.zeros(n, np.int32), 1)[0] == 3


@pytest.mark.parametrize(
    "dtype, n",
    [
        (jnp.bfloat16, 12),
        (jnp.float8_e5m2, 12),
        (jnp.float16, 64),
        (jnp.float8_e4m3fn, 4),
    ],
)
def test_a_product_rounds_once(dtype, n):
    """With these lengths a product that is rounded at each step gives other bits."""
    step = 1 + float(jnp.finfo(dtype).eps)
    want, stepwise = np.float32(1), np.asarray(1, dtype)
    for _ in range(n):
        want = want * np.float32(step)
        stepwise = np.asarray(np.float32(stepwise) * np.float32(step)).astype(dtype)
    want = want.astype(dtype)
    assert want != stepwise
    got = js.ops.segment_prod(jnp.full(n, step, dtype), np.zeros(n, np.int32), 1)[0]
    assert np.asarray(got) == want


def test_alpha_is_applied_before_the_rounding():
    third = jnp.asarray(1 / 3, jnp.bfloat16)
    source = jnp.ones(300, jnp.bfloat16)
    ids = np.zeros(300, np.int32)
    got = js.mint.index_add(jnp.zeros(1, jnp.bfloat16), 0, ids, source, alpha=third)
    assert got[0] == jnp.asarray(300 * float(third), jnp.bfloat16)
    scaled = lambda a: js.mint.index_add(jnp.zeros(1), 0, ids, jnp.ones(300), alpha=a)[
        0
    ]
    assert jax.grad(scaled)(2.0) == 300


def test_unique_indices_make_no_float32_copy():
    x, u = jnp.ones((9, 8), jnp.bfloat16), jnp.ones((4, 8), jnp.bfloat16)
    i = jnp.arange(4)
    add = lambda x, u: js.mint.index_add(x, 0, i, u, unique_indices=True)
    assert "f32" not in jax.jit(add).lower(x, u).as_text()
    assert (
        "f32"
        in jax.jit(lambda x, u: js.mint.index_add(x, 0, i, u)).lower(x, u).as_text()
    )


# -- bounds ----------------------------------------------------------------------------

I4 = np.array([-1, -5, 4, 1], np.int32)
U4 = np.array([1, 2, 3, 4], np.float32)
MODES = [
    ({}, [0, 4, 0, 0], [0, 0, 0, 2]),
    ({"mode": None}, [0, 4, 0, 0], [0, 0, 0, 2]),
    ({"mode": "drop"}, [0, 4, 0, 0], [0, 0, 0, 2]),
    ({"mode": "fill"}, [0, 4, 0, 0], [0, 0, 0, 2]),
    ({"mode": jax.lax.GatherScatterMode.FILL_OR_DROP}, [0, 4, 0, 0], [0, 0, 0, 2]),
    ({"mode": "clip"}, [3, 4, 0, 3], [1, 1, 4, 2]),
    ({"mode": jax.lax.GatherScatterMode.CLIP}, [3, 4, 0, 3], [1, 1, 4, 2]),
    ({"wrap_negative_indices": True}, [0, 4, 0, 1], [4, 0, 0, 2]),
    ({"wrap_negative_indices": True, "mode": "clip"}, [2, 4, 0, 4], [4, 1, 4, 2]),
]


@pytest.mark.parametrize("options, scattered, gathered", MODES)
def test_modes(options, scattered, gathered):
    for f in (
        lambda u: js.tf.scatter_nd(I4[:, None], u, (4,), **options),
        lambda u: js.mint.scatter_add(np.zeros(4, "f4"), 0, I4, u, **options),
        lambda u: js.mint.index_add(np.zeros(4, "f4"), 0, I4, u, **options),
        lambda u: js.bnns.scatter_nd(
            "sum", u, I4[:, None], np.zeros(4, "f4"), **options
        ),
        lambda u: js.ops.segment_sum(u, I4, 4, **options),
    ):
        assert f(U4).tolist() == scattered
        # The gradient goes where the value went.
        weights = np.array([1, 2, 3, 4], np.float32)
        gradient = jax.grad(lambda u: (f(u) * weights).sum())(U4)
        assert gradient.tolist() == gathered
    table = np.array([1, 2, 3, 4], np.float32)
    for f in (
        lambda t: js.tf.gather_nd(t, I4[:, None], **options),
        lambda t: js.mint.gather(t, 0, I4, **options),
        lambda t: js.mint.index_select(t, 0, I4, **options),
        lambda t: js.bnns.gather_nd(t, I4[:, None], **options),
        lambda t: js.ops.take(t, I4, **options),
    ):
        assert f(table).tolist() == gathered


def test_promise_in_bounds():
    ids = np.array([0, 3], np.int32)
    f = lambda u: js.ops.segment_sum(u, ids, 4, mode="promise_in_bounds")
    np.testing.assert_array_equal(jax.jacrev(f)(jnp.ones(2)), np.eye(4)[:, [0, 3]])
    assert "PROMISE" in str(jax.make_jaxpr(f)(jnp.ones(2)))
    take = lambda t: js.ops.take(t, ids, mode="promise_in_bounds")
    assert "select" not in jax.jit(take).lower(jnp.ones(4)).as_text()  # no mask


def test_promises_are_about_the_indices_as_given():
    """Clipping and wrapping can break them; then XLA must not hear of them."""
    x, u = jnp.zeros(4), jnp.ones(3)
    promise = dict(unique_indices=True, indices_are_sorted=True)
    add = lambda i, **o: js.mint.index_add(x, 0, i, u, **promise, **o)
    text = lambda i, **o: jax.jit(lambda i: add(i, **o)).lower(i).as_text()
    i = np.array([0, 5, 6], np.int32)
    assert add(i, mode="clip").tolist() == [1, 0, 0, 2]
    assert "unique_indices = true" not in text(i, mode="clip")
    assert "indices_are_sorted = true" in text(i, mode="clip")
    i = np.array([-1, 0, 3], np.int32)
    assert add(i, wrap_negative_indices=True).tolist() == [1, 0, 0, 2]
    wrapped = text(i, wrap_negative_indices=True)
    assert "sorted = true" not in wrapped and "unique_indices = true" not in wrapped
    assert "sorted = true" in text(i) and "unique_indices = true" in text(i)
    points = lambda i, **o: js.tf.tensor_scatter_nd_add(
        jnp.zeros((4, 4)), i, jnp.ones(2), **promise, **o
    )
    i = np.array([[0, 3], [2, 9]], np.int32)
    for o, holds in (({}, True), ({"mode": "clip"}, False)):
        text_ = jax.jit(lambda i: points(i, **o)).lower(i).as_text()
        assert ("indices_are_sorted = true" in text_) == holds
    short = lambda i: js.mint.scatter_add(jnp.zeros((3, 4), int), 1, i, i, **promise)
    text_ = jax.jit(short).lower(np.zeros((2, 2), int)).as_text()
    assert "indices_are_sorted = true" not in text_  # rows are components there
    # along: sorted on dim means sorted to XLA only where the batch leads
    for dim, holds in ((0, False), (1, True)):
        f = lambda i: js.mint.scatter_add(i, dim, i, i, **promise)
        got = "sorted = true" in jax.jit(f).lower(np.zeros((2, 2), np.int32)).as_text()
        assert got == holds


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_dropped_rows_leak_nothing(poison):
    ids = np.array([9, 1, -1], np.int32)
    data = np.array([[poison] * 2, [1, 2], [poison] * 2], np.float32)
    for f in (
        lambda u: js.ops.segment_sum(u, ids, 3),
        lambda u: js.ops.segment_mean(u, ids, 3),
        lambda u: js.tf.scatter_nd(ids[:, None], u, (3, 2)),
        lambda u: js.mint.index_add(np.zeros((3, 2), "f4"), 0, ids, u),
    ):
        value, pull = jax.vjp(f, data)
        assert np.isfinite(value).all()
        assert not np.isnan(pull(np.full((3, 2), 7, "f4"))[0]).any()
        assert np.asarray(pull(np.ones((3, 2), "f4"))[0]).tolist() == [
            [0, 0],
            [1, 1],
            [0, 0],
        ]
        second = jax.grad(
            lambda u: (jax.grad(lambda v: (f(v) ** 2).sum())(u) ** 2).sum()
        )
        assert np.isfinite(second(data)).all()
    for op in (js.ops.segment_max, js.ops.segment_min, js.ops.segment_prod):
        assert op(data, ids, 3)[1].tolist() == [1, 2]
    scaled = lambda a: js.mint.index_add(np.zeros((3, 2), "f4"), 0, ids, data, alpha=a)
    assert jax.grad(lambda a: scaled(a).sum())(np.float32(2)) == 3
    along = lambda a: js.mint.index_add(np.zeros((2, 3), "f4"), 1, ids, data.T, alpha=a)
    assert jax.grad(lambda a: along(a).sum())(np.float32(2)) == 3


# -- index dtypes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
)
def test_every_integer_dtype(name):
    dtype = np.dtype(name)
    hot = np.array([[100]], dtype)  # an axis longer than int8 can name
    assert js.tf.scatter_nd(hot, [1.0], (300,))[100] == 1
    assert js.ops.take(jnp.arange(300), hot[0])[0] == 100
    assert js.ops.segment_sum(jnp.ones(1), hot[0], 300)[100] == 1
    top = np.array([np.iinfo(dtype).max], dtype)
    got = js.ops.segment_sum(jnp.ones(1), top, 70000)
    want = int(top[0]) if top[0] < 70000 else None
    assert (int(got.argmax()) == want) if want else not got.any()
    if dtype.kind == "u":  # clipping still goes to the last row
        clipped = js.ops.segment_sum(jnp.ones(1), top, 5, mode="clip")
        assert clipped.tolist() == [0, 0, 0, 0, 1]
    else:
        low = np.array([np.iinfo(dtype).min], dtype)
        assert not js.ops.segment_sum(jnp.ones(1), low, 5, mode="drop").any()
        assert not js.ops.segment_sum(
            jnp.ones(1), low, 5, wrap_negative_indices=True
        ).any()


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_four_bit_indices(name):
    ids = jnp.array([1, 3, 7], name)
    assert js.ops.segment_sum(jnp.ones(3), ids, 100)[7] == 1
    assert js.ops.take(jnp.arange(100), ids).tolist() == [1, 3, 7]


@pytest.mark.parametrize(
    "far", [2**31, 2**32, 2**32 + 1, -(2**32) + 1, 2**40, -(2**62)]
)
def test_wide_numpy_indices_never_alias(far):
    wide = np.array([far, 1])
    want = [0, 1, 0, 0]
    ones, x = jnp.ones(2), jnp.zeros(4)
    assert js.mint.index_add(x, 0, wide, ones).tolist() == want
    assert js.mint.index_add(x, dim=0, index=wide, source=ones).tolist() == want
    assert js.tf.scatter_nd([[far], [1]], [1.0, 1.0], [4]).tolist() == want
    assert js.ops.take(jnp.arange(1, 5), wide).tolist() == [0, 2]
    assert js.ops.segment_sum(ones, wide, 4).tolist() == want
    closed_over = jax.jit(lambda x: js.mint.index_add(x, 0, wide, ones))
    assert closed_over(x).tolist() == want
    assert js.tf.gather_nd(jnp.arange(1, 5), [far]).tolist() == 0
    if far > 0:
        unsigned = wide.astype(np.uint64)
        assert js.ops.segment_sum(ones, unsigned, 4).tolist() == want
        assert js.ops.segment_sum(ones, unsigned, 4, mode="clip").tolist() == [
            0,
            1,
            0,
            1,
        ]


def test_wide_python_integers():
    assert js.ops.take(jnp.arange(1, 5), 2**70).tolist() == 0
    assert js.ops.take(jnp.arange(1, 5), 2).tolist() == 3
    assert js.tf.gather_nd(jnp.arange(1, 5), [[2**63], [1]]).tolist() == [0, 2]


# -- values ----------------------------------------------------------------------------


def test_min_and_max_propagate_nan():
    data = jnp.array([1, np.nan, 3, 4], jnp.float32)
    ids = np.array([0, 0, 1, 1], np.int32)
    for f in (js.ops.segment_max, js.ops.segment_min):
        assert np.isnan(f(data, ids, 2)).tolist() == [True, False]
    held = jnp.array([np.nan, 1.0])
    got = js.tf.tensor_scatter_nd_max(held, [[0], [1]], [5.0, 5.0])
    assert np.isnan(got[0]) and got[1] == 5


NAN_WITH_PAYLOAD = {
    "float32": 0x7F800005,
    "bfloat16": 0x7F85,
    "float16": 0x7C05,
    "float8_e3m4": 0x73,
    "float8_e4m3": 0xFA,
    "float8_e5m2": 0xFD,
    "float8_e4m3fn": 0xFF,
}


@pytest.mark.parametrize("name", NAN_WITH_PAYLOAD)
def test_set_and_gather_move_bits(name):
    """Subnormals, -0 and NaN payloads survive, in untouched cells too."""
    dtype = jnp.dtype(name)
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    negative_zero = 1 << (8 * dtype.itemsize - 1)
    values = np.array([NAN_WITH_PAYLOAD[name], 1, negative_zero], bits).view(dtype)
    assert np.isnan(values[0].astype(np.float32))
    index = np.array([[0], [1], [2]])
    for at in (index, index[1:2]):
        got = js.tf.tensor_scatter_nd_update(values, at, values[at[:, 0]])
        assert np.asarray(got).view(bits).tolist() == values.view(bits).tolist()
    got = jax.vmap(lambda v: js.ops.take(v, index[:, 0]))(np.stack([values, values]))
    assert np.asarray(got)[1].view(bits).tolist() == values.view(bits).tolist()


def test_empty_segments():
    none = np.zeros(0, np.int32)
    cases = {
        "float32": (-np.inf, np.inf),
        "int8": (-128, 127),
        "uint8": (0, 255),
        "bool": (False, True),
        "bfloat16": (-np.inf, np.inf),
        "float8_e5m2": (-np.inf, np.inf),
        "float8_e4m3fn": (-448, 448),  # no infinity
        "float4_e2m1fn": (-6, 6),
    }
    for name, (lowest, highest) in cases.items():
        data = jnp.zeros(0, name)
        reductions = "sum prod max min".split()
        for reduction, want in zip(reductions, (0, 1, lowest, highest)):
            got = getattr(js.ops, f"segment_{reduction}")(data, none, 1)
            assert got.dtype == data.dtype and float(got[0]) == want
    assert js.ops.segment_mean(jnp.zeros((0, 2)), none, 1).tolist() == [[0, 0]]


def test_mean_of_integers_is_the_default_float():
    got = js.ops.segment_mean(jnp.array([1, 2, 4]), jnp.array([0, 0, 1]), 2)
    assert got.dtype == jnp.result_type(float) and got.tolist() == [1.5, 4]


def test_python_numbers_are_weakly_typed():
    x = jnp.zeros(3, jnp.bfloat16)
    assert js.mint.scatter(x, 0, [1], 2.5).tolist() == [0, 2.5, 0]
    got = js.tf.tensor_scatter_nd_add(x, [[1]], [2])
    assert got.dtype == jnp.bfloat16 and got[1] == 2
    assert js.tf.tensor_scatter_nd_update(jnp.zeros(3), [1], 2).tolist() == [0, 2, 0]


@pytest.mark.parametrize("number", [300, -129, 2**31, 2**40, 2**63, 2**70])
def test_python_integers_that_do_not_fit_are_never_cut(number):
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, jnp.int4):
        x = np.zeros(3, dtype)
        info = jnp.iinfo(x.dtype)
        if info.min <= number <= info.max:
            assert int(js.mint.scatter(x, 0, [0], number)[0]) == number
            assert int(js.tf.tensor_scatter_nd_add(x, [[0]], [number])[0]) == number
            continue
        for call in (
            lambda: js.mint.scatter(x, 0, [0], number),
            lambda: js.tf.tensor_scatter_nd_add(x, [[0]], [number]),
            lambda: js.mint.index_add(x, 0, [0], x[:1], alpha=number),
        ):
            with pytest.raises(ValueError, match="must fit"):
                call()
    big = js.mint.index_add(np.ones(1, "f4"), 0, [0], np.ones(1, "f4"), alpha=number)
    assert big[0] == np.float32(1 + number)
    if not X64 and abs(number) >= 2**31:
        with pytest.raises(ValueError, match="must fit int32"):
            js.tf.scatter_nd([[0]], [number], [1])
        with pytest.raises(ValueError, match="must fit int32"):
            js.tf.tensor_scatter_nd_add([number], [[0]], [1])


def test_lists_that_hold_arrays():
    table = jnp.arange(1, 5)
    ids = [np.array([2**32 + 1]), jnp.array([2]), [1]]
    assert js.tf.gather_nd(table, ids).tolist() == [0, 3, 2]
    got = jax.jit(lambda i, u: js.tf.scatter_nd([[i], [1]], [u, u], [3]))(2, 1.5)
    assert got.tolist() == [0, 1.5, 1.5]
    # arrays in a list keep their dtype: they are not Python numbers
    with pytest.raises(TypeError, match="dtype of `tensor`"):
        js.tf.tensor_scatter_nd_add(jnp.zeros(3, "bfloat16"), [[1]], [np.float32(1)])


def test_empty_lists():
    assert js.mint.scatter_add([1, 2, 3], 0, [], []).tolist() == [1, 2, 3]
    half = jnp.ones(2, jnp.bfloat16)
    assert (
        js.tf.tensor_scatter_nd_add(half, np.zeros((0, 1), int), []).dtype == half.dtype
    )
    assert js.tf.scatter_nd(np.zeros((0, 1), int), [], [2]).tolist() == [0, 0]


def test_segments_without_num_segments():
    ids = jnp.array([0, 2, 2])
    assert js.ops.segment_sum(jnp.ones(3), ids).tolist() == [1, 0, 2]
    assert js.ops.segment_sum(jnp.ones(0), jnp.zeros(0, int)).shape == (0,)
    assert js.ops.segment_sum(jnp.ones(2), jnp.array([-5, -2])).shape == (0,)
    assert js.ops.segment_sum(jnp.ones(3), ids, np.int64(4)).shape == (4,)


def test_segments_broadcast_one_row_as_jax_does():
    ids = jnp.array([0, 2, 2])
    assert js.ops.segment_sum(jnp.asarray(1.0), ids, 3).tolist() == [1, 0, 2]
    assert js.ops.segment_sum(jnp.ones((1, 2)), ids, 3)[2].tolist() == [2, 2]


# -- empties ---------------------------------------------------------------------------

Z = jnp.zeros
IDS = lambda *s: np.zeros(s, np.int32)
EMPTY = {
    "no updates": (lambda x, u: js.mint.index_add(x, 0, IDS(0), u), (3, 2), (0, 2)),
    "no rows": (lambda x, u: js.mint.index_add(x, 0, IDS(4), u), (0, 2), (4, 2)),
    "no features": (lambda x, u: js.mint.index_add(x, 0, IDS(4), u), (3, 0), (4, 0)),
    "no ids": (lambda x, u: x + js.ops.segment_sum(u, IDS(0), 3), (3,), (0,)),
    "no segments": (lambda x, u: x + js.ops.segment_sum(u, IDS(5), 0), (0,), (5,)),
    "mean": (lambda x, u: x + js.ops.segment_mean(u, IDS(0), 3), (3,), (0,)),
    "along": (lambda x, u: js.mint.scatter_add(x, 1, IDS(3, 0), u), (3, 2), (3, 0)),
    "along no axis": (
        lambda x, u: js.mint.scatter_add(x, 1, IDS(3, 2), u),
        (3, 0),
        (3, 2),
    ),
    "clip no axis": (
        lambda x, u: js.mint.scatter_add(x, 1, IDS(3, 2), u, mode="clip"),
        (3, 0),
        (3, 2),
    ),
    "nd": (
        lambda x, u: js.tf.tensor_scatter_nd_add(x, IDS(0, 1), u),
        (3, 2),
        (0, 2),
    ),
    "nd K=0": (lambda x, u: js.tf.tensor_scatter_nd_add(x, IDS(0, 0), u), (3,), (0, 3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty(name):
    f, x, u = EMPTY[name]
    args = (Z(x), jnp.ones(u))
    assert not f(*args).any() and f(*args).shape == x
    gradients = jax.grad(lambda x, u: f(x, u).sum(), (0, 1))(*args)
    assert [g.shape for g in gradients] == [x, u]
    assert not gradients[1].any()
    both = jax.vmap(f)(*(jnp.stack([a, a]) for a in args))
    assert both.shape == (2, *x) and not both.any()
    none = jax.vmap(f)(*(a[None][:0] for a in args))  # a batch of none
    assert none.shape == (0, *x)
    jax.jit(f).lower(*args).compile()


def test_empty_gathers():
    assert js.ops.take(Z((0, 2)), IDS(3)).shape == (3, 2)
    assert js.mint.gather(Z((3, 0)), 1, IDS(3, 2)).tolist() == [[0, 0]] * 3
    assert js.mint.gather(Z((3, 0)), 1, IDS(3, 2), mode="clip").tolist() == [[0, 0]] * 3
    assert js.tf.gather_nd(Z((3, 2)), IDS(0, 1)).shape == (0, 2)


# -- integers under differentiation ----------------------------------------------------


def test_integers_have_float0_tangents():
    x, i, u = jnp.arange(4), jnp.array([1, 1, 9, -1]), jnp.array([5, 6, 7, 8])
    f = lambda x, u: js.mint.index_add(x, 0, i, u)
    float0 = np.zeros(4, jax.dtypes.float0)
    value, tangent = jax.jvp(f, (x, u), (float0, float0))
    assert value.tolist() == [0, 12, 2, 3]
    assert tangent.dtype == jax.dtypes.float0 and tangent.shape == (4,)
    loss = lambda x, u: f(x, u).astype(float).sum()
    assert jax.grad(loss, allow_int=True)(x, u).dtype == jax.dtypes.float0
    # ids computed from a trained array
    ids = lambda w: jnp.argsort(w).astype(jnp.int32)
    g = jax.grad(lambda w: js.ops.segment_sum(w, ids(w), 3).sum())(jnp.ones(3))
    assert g.tolist() == [1, 1, 1]
    # integer data inside a differentiated function needs no derivative of max
    h = lambda w: (
        w * js.ops.segment_max(ids(w * jnp.ones(3)), IDS(3), 1)[0].astype(float)
    )
    assert jax.grad(h)(2.0) == 2


def test_complex_gradients():
    f = lambda x: jnp.real(js.mint.index_add(x, 0, IDS(4), x * 1j).sum())
    g = jax.grad(f)(jnp.ones(4, jnp.complex64))
    assert g.dtype == jnp.complex64
    # d/dx of Re(sum x + 1j sum x) is 1 + 1j in JAX's convention (conjugate)
    np.testing.assert_allclose(g, np.full(4, 1 + 1j))


# -- integers and complex numbers ------------------------------------------------------


def test_integers_wrap_and_stay_exact():
    ids = np.zeros(2, np.int32)
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.uint32):
        top = np.iinfo(dtype).max
        data = np.array([top, 3], dtype)
        with np.errstate(over="ignore"):
            total, product = data.sum(dtype=dtype), data.prod(dtype=dtype)
        assert int(js.ops.segment_sum(data, ids, 1)[0]) == int(total)
        assert int(js.ops.segment_prod(data, ids, 1)[0]) == int(product)
        less = js.tf.tensor_scatter_nd_sub(data, [[0], [1]], data[::-1])
        with np.errstate(over="ignore"):
            assert less.tolist() == (data - data[::-1]).tolist()
    odd = np.array([2**24, 1], np.int32)  # float32 would lose the 1
    assert js.ops.segment_sum(odd, ids, 1).tolist() == [2**24 + 1]


def test_complex_products():
    x = np.array([1 + 2j, 3 - 1j], np.complex64)
    got = js.ops.segment_prod(x, np.zeros(2, np.int32), 1)
    np.testing.assert_allclose(got, [5 + 5j])
    got = js.tf.tensor_scatter_nd_div(np.array([5 + 5j], np.complex64), [[0]], x[:1])
    np.testing.assert_allclose(got, [3 - 1j], rtol=1e-6)


def test_division_by_zero_is_numpys():
    x = np.array([1, -1, 0, 5], np.float32)
    got = js.tf.tensor_scatter_nd_div(x, [[0], [1], [2]], np.zeros(3, np.float32))
    assert got[:2].tolist() == [np.inf, -np.inf] and np.isnan(got[2]) and got[3] == 5


def test_name_is_a_scope_within_a_jit():
    f = lambda u: js.tf.scatter_nd([[0]], u, [2], name="my_scatter")
    assert "my_scatter" in jax.jit(f).lower(jnp.ones(1)).as_text(debug_info=True)
