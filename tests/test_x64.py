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
    f = jax.grad(lambda t, i: js.ops.take(t, i).sum())
    assert jax.eval_shape(f, rows, ids).shape == (2**32, 2)
    text = jax.jit(f).lower(rows, ids).as_text()
    assert "xi64>" in text.split('"stablehlo.scatter"(')[1]
