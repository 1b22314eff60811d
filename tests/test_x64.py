"""x64 on, in a process of its own: JAX_ENABLE_X64=1 pytest tests/test_x64.py."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from jax.test_util import check_grads

import jscatter as js

FAR = np.array([2**32 + 1, -(2**40), 1, 1, 0, 2**31], np.int64)
WANT = [1, 2, 0, 0]


def test_jax_own_gather_aliases_such_ids():
    """Else the tests below would show nothing."""
    aliased = jnp.arange(1.0, 5).at[FAR].get(mode="fill", fill_value=0)
    assert aliased[0] == 2


def test_ids_beyond_int32_are_dropped_never_aliased():
    ids = jnp.asarray(FAR)
    assert ids.dtype == jnp.int64
    ones, x, table = jnp.ones(6), jnp.zeros(4), jnp.arange(1.0, 5)
    for scatter in (
        lambda u: js.mint.index_add(x, 0, ids, u),
        lambda u: js.mint.scatter_add(x, 0, ids, u),
        lambda u: js.tf.scatter_nd(ids[:, None], u, (4,)),
        lambda u: js.tf.tensor_scatter_nd_sub(x, ids[:, None], -u),
        lambda u: js.bnns.scatter_nd("sum", u, ids[:, None], x),
        lambda u: js.ops.segment_sum(u, ids, 4),
    ):
        assert scatter(ones).tolist() == WANT
        # the gradient is a gather: plain JAX's reads row 1 for 2**32 + 1
        g = jax.grad(lambda u: (scatter(u) * table).sum())(ones)
        assert g.tolist() == [0, 0, 2, 2, 1, 0]
        check_grads(lambda u: jnp.sin(scatter(u)), (ones,), 2)
    for gather in (
        lambda t: js.ops.take(t, ids),
        lambda t: js.mint.gather(t, 0, ids),
        lambda t: js.mint.index_select(t, 0, ids),
        lambda t: js.tf.gather_nd(t, ids[:, None]),
        lambda t: js.bnns.gather_nd(t, ids[:, None]),
    ):
        assert gather(table).tolist() == [0, 0, 2, 2, 1, 0]
        assert jax.grad(lambda t: gather(t).sum())(table).tolist() == WANT
        mapped = jax.vmap(gather)(jnp.stack([table, table]))
        assert mapped[1].tolist() == [0, 0, 2, 2, 1, 0]
    for op in (js.ops.segment_max, js.ops.segment_prod):
        assert op(ones, ids, 2).tolist() == [1, 1]
    clipped = js.ops.segment_sum(ones, ids, 4, mode="clip")
    assert clipped.tolist() == [2, 2, 0, 2]


@pytest.mark.parametrize("name", ["uint32", "uint64", "uint8"])
def test_unsigned_indices(name):
    top = jnp.array([np.iinfo(name).max, 1], name)
    assert js.ops.segment_sum(jnp.ones(2), top, 4).tolist() == [0, 1, 0, 0]
    assert js.ops.segment_sum(jnp.ones(2), top, 4, mode="clip").tolist() == [0, 1, 0, 1]
    # uint32 fits int64: a row beyond int32 keeps its number
    rows = jax.ShapeDtypeStruct((2**31 + 8,), np.int8)
    text = jax.jit(js.ops.take).lower(rows, top).as_text()
    assert "xi64>" in text.split('"stablehlo.gather"(')[1]


def test_float64():
    x, u = jnp.zeros((4, 3)), jnp.ones((6, 3))
    assert x.dtype == jnp.float64
    f = lambda x, u: js.mint.index_add(x, 0, jnp.asarray(FAR), u)
    assert f(x, u).dtype == jnp.float64 and f(x, u)[:, 0].tolist() == WANT
    check_grads(lambda x, u: jnp.sin(f(x, u)), (x, u), 2, ("fwd", "rev"))
    tiny = jnp.full(6, 1e-12) + 1
    assert js.ops.segment_sum(tiny, jnp.zeros(6, int), 1)[0] == tiny.sum()
    assert js.ops.segment_mean(jnp.array([1, 2]), jnp.zeros(2, int), 1).dtype == x.dtype


def test_the_target_decides_the_dtype():
    half = jnp.zeros(3, jnp.bfloat16)
    for updates in ([2.5], 2.5):
        index = [[1]] if isinstance(updates, list) else [1]
        got = js.tf.tensor_scatter_nd_update(half, index, updates)
        assert got.dtype == jnp.bfloat16 and got.tolist() == [0, 2.5, 0]
    with pytest.raises(TypeError, match="dtype of `tensor`"):
        js.tf.tensor_scatter_nd_add(jnp.zeros(3, jnp.float32), [[1]], np.array([2.5]))


@pytest.mark.parametrize("key", cases.KEYS)
def test_second_derivatives_in_float64(key):
    """By finite differences, both modes; no two values are equal and none is 0."""
    case = CASES[key]
    sizes = [a.size for a in case.args]
    values = np.random.default_rng(0).permutation(sum(sizes)) / sum(sizes) + 0.5
    args = tuple(
        v.reshape(a.shape)
        for v, a in zip(np.split(values, np.cumsum(sizes)[:-1]), case.args)
    )
    got, want = case.run(*args), case.loops(*case.filled(args))
    if case.op != "set":  # which of several is set shows under differentiation
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
    assert got.dtype == np.float64
    finite = lambda x: jnp.sin(jnp.where(jnp.isfinite(x), x, 0))
    check_grads(lambda *a: finite(case.run(*a)), args, 2, ("fwd", "rev"))


def test_a_table_of_more_than_two_to_the_31_rows():
    """Types only: the memory for one is not here."""
    rows = jax.ShapeDtypeStruct((2**32, 2), np.float32)
    ids = jax.ShapeDtypeStruct((3,), np.int64)
    checked = lambda t, i: js.ops.take(t, i.astype(np.int32), mode="error")
    assert jax.eval_shape(checked, rows, ids).shape == (3, 2)
    f = jax.grad(lambda t, i: js.ops.take(t, i).sum())
    assert jax.eval_shape(f, rows, ids).shape == (2**32, 2)
    text = jax.jit(f).lower(rows, ids).as_text()
    assert "xi64>" in text.split('"stablehlo.scatter"(')[1]


SIZES = np.array([0, 0, 1, 1, -1, 2, 1e-3, -1e-3, 1e3, -1e3])


# Of two rows normalize is constant; test_magnitudes has it, at all.
NOT_LINEAR = {c.op for c in CASES.values() if not c.linear} - {"normalize"}


@pytest.mark.parametrize("op", sorted(NOT_LINEAR))
def test_float32_beside_float64(op):
    """Value, gradient, Hessian-vector product of the first case of each reduction.

    Zeros, ties and magnitudes from 1e-3 to 1e3, against plain JAX in float64.
    """
    case = next(c for c in CASES.values() if c.op == op)

    def all_orders(fun):
        def loss(*args):  # in the value's own size, so that float32 holds the orders
            y = fun(*args)
            y = jnp.where(jnp.isfinite(y), y, 0)
            size = jax.lax.stop_gradient(abs(y).max())
            return jnp.sin(y / (1 + size)).sum()

        g = jax.grad(loss, tuple(range(len(case.args))))
        # Along what gives the second derivative terms as large as the first one's.
        exponential = op in ("softmax", "log_softmax", "logsumexp", "log_sum_exp")
        along = (lambda a: jnp.where(a > 0, 1, -1)) if exponential else lambda a: a
        towards = lambda a: jax.tree.map(lambda v: along(v).astype(v.dtype), a)
        return jax.jit(lambda *a: (fun(*a), g(*a), jax.jvp(g, a, towards(a))[1]))

    ours, reference = all_orders(case.run), all_orders(case.reference)
    rng = np.random.default_rng(0)
    for _ in range(60):
        draw = lambda shape: rng.choice([*SIZES, *rng.uniform(-9, 9, 5)], shape)
        args = [draw(a.shape).astype(np.float32) for a in case.args]
        if op in cases.POSITIVE:
            args = [abs(a) + np.float32(1e-3) for a in args]
        if op == "divide":
            args[1][args[1] == 0] = 1
        got, want = ours(*args), reference(*(a.astype(np.float64) for a in args))
        assert all(np.isfinite(w).all() for w in jax.tree.leaves(want[1:]))
        # Terms as large as the first derivative cancel in the second one; shares of 1
        # cancel in the first derivative of softmax.
        least = 1 if op == "softmax" else 1e-9
        first = max(float(abs(w).max()) for w in want[1])
        for order in range(3):
            for g, w in zip(*map(jax.tree.leaves, (got[order], want[order]))):
                finite = np.abs(w[np.isfinite(w)])
                size = max(finite.max(initial=least), first if order == 2 else 0)
                assert g.dtype == np.float32
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5 * size)
