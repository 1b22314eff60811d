"""What a spelling has of its own. What they share the oracle and the cases meet."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscatter as js

F, I = np.float32, np.int32


# -- ops -------------------------------------------------------------------------------


def test_buckets_keep_sums_accurate():
    """0.1 a million times: one long float32 sum is off by 1 %, short ones are not."""
    x, ids = np.full(1_000_000, 0.1, F), np.zeros(1_000_000, I)
    exact = x.astype(np.float64).sum()
    error = lambda out: abs(float(out[0]) - exact) / exact
    assert error(js.ops.segment_sum(x, ids, 1)) > 1e-3
    assert error(js.ops.segment_sum(x, ids, 1, bucket_size=1000)) < 1e-4
    mean = js.ops.segment_mean(x, ids, 1, bucket_size=1000)
    assert error(mean * len(x)) < 1e-4
    plain = jax.ops.segment_sum(x, ids, 1, bucket_size=1000)
    assert error(plain) < 1e-4


@pytest.mark.parametrize("size", [2, 99])
def test_buckets_of_any_size(size):
    """Values and derivatives of every order are those without; so are dropped rows."""
    rng = np.random.default_rng(size)
    x = rng.integers(-2, 3, (5, 2)).astype(F)
    ids = np.array([0, 2, -1, 0, 2], I)

    def everything(x, n):
        out = {}
        for name in ("sum", "prod", "max"):
            fun = getattr(js.ops, f"segment_{name}")
            f = lambda x, fun=fun: fun(x, ids, 3, bucket_size=n, mode="clip")
            loss = lambda x, f=f: (f(x) ** 2).sum(where=jnp.isfinite(f(x)))
            out[name] = f(x), jax.hessian(loss)(x), jax.vmap(f, 1, 1)(x)
        out["drop"] = js.ops.segment_sum(x, ids, 3, bucket_size=n)
        two = x[:4].reshape(2, 2, 2), ids[:4].reshape(2, 2)
        out["2-D ids"] = js.ops.segment_sum(*two, 3, bucket_size=n)
        return out

    run = jax.jit(everything, static_argnums=1)
    jax.tree.map(np.testing.assert_array_equal, run(x, size), run(x, None))
    half = np.full(5000, 1, jnp.bfloat16)  # rounded once, not once a bucket
    one = js.ops.segment_sum(half, np.zeros(5000, I), 1, bucket_size=100)
    assert one[0] == 4992
    yes = js.ops.segment_sum(np.ones(5, bool), ids, 3, bucket_size=2)
    assert yes.tolist() == [True, False, True]
    four = js.ops.segment_sum(jnp.ones(5, "int4"), ids, 3, bucket_size=2)
    assert four.tolist() == [2, 0, 2]
    more = js.ops.segment_sum(np.ones(5, I), ids, 3, bucket_size=2**40)
    assert more.tolist() == [2, 0, 2]
    none = js.ops.segment_prod(x[:0], ids[:0], 2, bucket_size=size)
    assert none.tolist() == [[1, 1]] * 2


def test_more_buckets_than_a_narrow_id_can_number():
    x, ids = np.arange(400, dtype=F), np.zeros(400, np.int8)
    assert js.ops.segment_sum(x, ids, 1, bucket_size=2).tolist() == [x.sum()]


def test_a_constant_stands_for_what_is_empty():
    """A segment whose maximum is -inf is not empty: jraph would replace it."""
    x, ids = jnp.array([-jnp.inf, 3.0, 2.0], F), np.array([0, 2, 2], I)
    f = lambda x: js.ops.segment_max_or_constant(x, ids, 3, constant=7.5)
    assert f(x).tolist() == [-jnp.inf, 7.5, 3.0]
    g = jax.grad(lambda x: f(x)[1:].sum())(x)
    assert g.tolist() == [0, 1, 0]
    g = jax.grad(lambda c: js.ops.segment_max_or_constant(x, ids, 3, constant=c)[1])
    assert g(2.5) == 1
    for zero in (0.0, -0.0):  # equal, and yet two
        out = js.ops.segment_max_or_constant(x, ids, 3, constant=zero)
        assert np.signbit(out[1]) == np.signbit(zero)
    ints = js.ops.segment_min_or_constant(np.array([5], np.int8), ids[:1], 2)
    assert ints.dtype == np.int8 and ints.tolist() == [5, 0]
    bools = js.ops.segment_max_or_constant(np.array([False]), ids[:1], 2, constant=True)
    assert bools.tolist() == [False, True]


def test_truth_of_numbers():
    x = np.array([0, np.nan, 0, -0.0, 2], F)
    ids = np.array([0, 0, 1, 1, 2], I)
    assert js.ops.segment_any(x, ids, 4).tolist() == [True, False, True, False]
    assert js.ops.segment_all(x, ids, 4).tolist() == [False, False, True, True]
    z = np.array([0, 1j], np.complex64)
    assert js.ops.segment_any(z, ids[:2], 1).tolist() == [True]


def test_counts():
    ids = np.array([[0, 2], [2, 9], [-1, 2]])
    assert js.ops.segment_count(ids, 4).tolist() == [1, 0, 3, 0]
    assert js.ops.segment_count(ids).tolist() == np.bincount([0, 2, 2, 9, 2]).tolist()
    many = jax.vmap(lambda i: js.ops.segment_count(i, 3))(ids)
    assert many.dtype == I and many.tolist() == [[1, 0, 1], [0, 0, 1], [0, 0, 1]]


# -- mint ------------------------------------------------------------------------------


def test_fill_moves_bits_and_shares_nothing():
    """Cells that are named twice are filled once: the value's gradient counts cells."""
    f = lambda x, v: js.mint.index_fill(x, 1, [0, 2, 0, 9], v)
    x = jnp.ones((2, 4), F)
    dx, dv = jax.grad(lambda x, v: f(x, v).sum(), (0, 1))(x, F(3))
    assert dx.tolist() == [[0, 1, 0, 1]] * 2 and dv == 4
    assert not jax.hessian(lambda v: f(x, v).sum())(F(3))
    for dtype, unsigned in ((np.float16, np.uint16), (jnp.bfloat16, np.uint16)):
        bits = np.array([0x7FC1, 0x8000, 0x7F81, 1], unsigned)
        out = js.mint.index_fill(bits.view(dtype), 0, [3], 2.0)
        assert np.asarray(out)[:3].view(unsigned).tolist() == bits[:3].tolist()
    tiny = np.array([1e-45, -0.0, np.nan], F)
    out = np.asarray(js.mint.index_fill(tiny, 0, [2], 0.0))
    assert out.view(np.uint32).tolist() == [1, 0x80000000, 0]


# -- pyg -------------------------------------------------------------------------------


def test_pyg_broadcasts_the_index():
    """torch_scatter's own examples of what is broadcast, in its documentation."""
    src = np.arange(24, dtype=F).reshape(2, 3, 4)
    by_rank_1 = js.pyg.scatter(src, [0, 2, 0], dim=1, dim_size=3)
    want = np.stack([src[:, 0] + src[:, 2], 0 * src[:, 0], src[:, 1]], 1)
    np.testing.assert_array_equal(by_rank_1, want)
    # dimensions behind are filled up with ones, and ones are stretched
    by_rank_2 = js.pyg.scatter(src, [[0, 2, 0]], dim=1, dim_size=3)
    np.testing.assert_array_equal(by_rank_2, want)
    whole = np.broadcast_to(np.array([0, 2, 0])[None, :, None], src.shape)
    by_all = js.pyg.scatter(src, whole, dim=1, dim_size=3)
    np.testing.assert_array_equal(by_all, want)
    own = js.pyg.scatter(src[0], [[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dim=0)
    assert own.tolist() == [[8, 9, 16, 21], [4, 6, 2, 0]]


def test_pyg_sizes():
    src = np.ones(4, F)
    assert js.pyg.scatter(src, [0, 0, 3, -1]).tolist() == [2, 0, 0, 1]
    assert js.pyg.scatter(src[:0], np.zeros(0, I)).shape == (0,)
    with pytest.raises(ValueError, match="pyg.scatter: `dim_size` must be given where"):
        jax.jit(lambda i: js.pyg.scatter(src, i))(np.zeros(4, I))
    with pytest.raises(ValueError, match="pyg.softmax: `dim_size` must be given where"):
        jax.jit(lambda i: js.pyg.softmax(src, i))(np.zeros(4, I))


def test_pyg_means_of_integers_floor():
    for dtype in (np.int8, I):
        out = js.pyg.scatter(np.array([-3, 0, 5], dtype), [0, 0, 2], reduce="mean")
        assert out.dtype == dtype and out.tolist() == [-2, 0, 5]
    many = np.full(300, 100, np.int8)
    assert js.pyg.scatter(many, np.zeros(300, I), reduce="mean").tolist() == [100]
    half = js.pyg.scatter(np.array([1, 2], jnp.bfloat16), [0, 0], reduce="mean")
    assert half.dtype == jnp.bfloat16 and half.tolist() == [1.5]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_csr_is_a_segment_each(reduce):
    """Also empty ones, first, last and in between; and rows that are in none."""
    src = np.arange(14, dtype=F).reshape(7, 2)
    indptr = np.array([1, 1, 3, 3, 3, 6, 6])
    want = [
        getattr(np, reduce)(src[a:b], 0)
        if b > a
        else js.pyg.segment_csr(src, [0, 0], reduce)[0]
        for a, b in itertools.pairwise(indptr)
    ]
    f = lambda s, i: js.pyg.segment_csr(s, i, reduce)
    np.testing.assert_array_equal(f(src, indptr), want)
    np.testing.assert_array_equal(jax.jit(f)(src, indptr), want)
    g = jax.grad(lambda s: f(s, indptr)[jnp.array([1, 4])].sum())(src)
    assert not g[np.array([0, 6])].any() and g[1:6].any(1).sum() >= 2
    past = f(src, np.array([0, 5, 99]))  # the end of the rows ends the last segment
    np.testing.assert_array_equal(past[1], getattr(np, reduce)(src[5:], 0))
    assert f(src, np.array([0])).shape == (0, 2)
