"""`explain` against the lowered text, with a stand-in kernel as a custom call."""

import inspect
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jscatter as js
from jscatter import _select

F = np.float32
X, U = np.ones((6, 4), F), np.ones((16, 4), F)
IDS = np.arange(16, dtype=np.int32) % 7
PALLAS = {"implementation": "pallas"}
TARGET = "jscatter_stand_in"


@pytest.fixture(params=["cuda", "tpu"])
def platform(request, monkeypatch):
    """A platform that has a kernel for float32: a custom call that is never run."""

    def run(operand, indices, updates, **_):
        like = jax.ShapeDtypeStruct(operand.shape, operand.dtype)
        return jax.ffi.ffi_call(TARGET, like)(operand, indices, updates)

    def supports(operand, *_, **__):
        return None if operand.dtype == F else f"dtype {operand.dtype}"

    row = _select.Kernel("stand-in", run, supports)
    monkeypatch.setattr(_select, "KERNELS", {("scatter_add", request.param): (row,)})
    jax.clear_caches()  # lowerings are cached: the new row would not be seen
    yield request.param
    jax.clear_caches()


def add(x, u):
    return js.mint.index_add(x, 0, IDS, u, **PALLAS)


def take(x):
    return js.ops.take(x, IDS, **PALLAS)


def plain(x, u):
    return x.at[IDS].add(u)


def by_shard_map(x, u):
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    one = lambda x, i, u: lax.psum(js.mint.index_add(x, 0, i, u, **PALLAS), "x")
    specs = dict(in_specs=(P(), P("x"), P("x")), out_specs=P())
    return jax.shard_map(one, mesh=mesh, **specs)(x, IDS, u)


def custom(x, u):
    f = jax.custom_vjp(add)
    f.defvjp(lambda x, u: (add(x, u), u), lambda u, ct: (ct, take(ct)))
    return f(x, u).sum()


# name: (program, how many kernels it holds)
PROGRAMS = {
    "jit": (add, 1),
    "nested jit": (lambda x, u: jax.jit(add)(x, u) + jax.jit(add)(2 * x, u), 1),
    "vmap": (lambda x, u: jax.vmap(add, (None, 0))(x, jnp.stack([u, u])), 1),
    "jvp": (lambda x, u: jax.jvp(add, (x, u), (x, u)), 2),
    "grad of a gather": (lambda x, u: jax.grad(lambda x: (take(x) ** 2).sum())(x), 1),
    "grad of a scatter": (lambda x, u: jax.grad(lambda u: add(x, u).sum())(u), 0),
    "scan": (lambda x, u: lax.scan(lambda c, _: (add(c, u), None), x, None, 3), 1),
    "cond": (
        lambda x, u: lax.cond(x[0, 0] > 0, add, lambda x, u: plain(x, u), x, u),
        1,
    ),
    "custom_vjp": (jax.grad(custom), 0),
    "custom_vjp, value too": (jax.value_and_grad(custom), 1),
    "shard_map": (by_shard_map, 1),
    "not alone": (lambda x, u: add(x, u) + plain(x, u) + x[IDS[:6]], 1),
    "another dtype": (
        lambda x, u: js.mint.index_add(
            x.astype(jnp.int32), 0, IDS, u.astype(jnp.int32)
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_says_what_the_text_holds(name, platform):
    f, kernels = PROGRAMS[name]
    lowered = jax.jit(f).trace(X, U).lower(lowering_platforms=(platform,))
    text = lowered.as_text(debug_info=True)
    found = js.explain(f, X, U, platform=platform)
    calls = text.count(f"custom_call @{TARGET}(")
    ours = [row for row in found.rows if row.implementation == "stand-in"]
    assert len(ours) == calls == kernels
    assert {row.reason for row in ours} <= {"asked for"}
    assert all(row.operation == "scatter_add" for row in ours)
    others = sum(text.count(f'"stablehlo.{op}"(') for op in ("scatter", "gather"))
    assert len(found.rows) == calls + others
    assert found.platform == platform
    for row in found.rows:  # each of ours stands in the text, scope and all
        if row.function:
            scope = f"jscatter[{row.function}: {row.operation} {row.form} "
            assert f"{scope}{row.implementation}, {row.reason}]" in text
        else:
            assert row.reason == "not jscatter's" and row.implementation == "xla"
    if name == "not alone":
        assert sum(not row.function for row in found.rows) == 2
    if name == "another dtype":
        assert found.rows[0].reason == "dtype int32"


def test_a_kernel_without_a_custom_call(platform, monkeypatch):
    """One row, with its reason, brackets and all but these."""
    run = lambda operand, indices, updates, **_: operand + updates[:6] * 2
    supports = lambda *_, **__: "rows [4, 3] are few"
    other = _select.Kernel("other", run, supports)
    row = _select.Kernel("stand-in", run, lambda *_, **__: None)
    table = {("scatter_add", platform): (row,)}
    monkeypatch.setattr(_select, "KERNELS", table)
    (found,) = js.explain(add, X, U, platform=platform).rows
    assert (found.implementation, found.reason) == ("stand-in", "asked for")
    jax.clear_caches()
    monkeypatch.setattr(_select, "KERNELS", {("scatter_add", platform): (other,)})
    f = lambda x, u: js.mint.index_add(x, 0, IDS, u)
    (found,) = js.explain(f, X, U, platform=platform).rows
    assert found.reason == "rows (4, 3) are few"


def test_other_scatters_and_types():
    pool = lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID").sum()
    (row,) = js.explain(jax.grad(pool), np.ones(6, F)).rows
    assert row.operation.startswith("select_and_scatter") and not row.function
    z = np.ones(3, np.complex64)
    (row,) = js.explain(lambda z: js.ops.segment_sum(z, np.zeros(3, int), 2), z).rows
    assert row.shapes == "complex<f32>[2] <- complex<f32>[3]"

    class Traces:
        def trace(self):
            raise AssertionError

        def __call__(self, x):
            return js.ops.take(x, IDS)

    assert len(js.explain(Traces(), X).rows) == 1


def test_reductions_and_derivatives(platform):
    f = jax.grad(lambda x: js.ops.segment_max(x, IDS, 6).sum())
    rows = js.explain(f, U, platform=platform).rows
    assert {row.function for row in rows} == {"ops.segment_max"}
    assert {row.operation for row in rows} == {"max", "scatter_add", "gather"}
    why = {row.operation: row.reason for row in rows}
    assert why["max"] == "no kernel is written for max"
    assert why["gather"] == "gathers are the compiler's on every platform"
    assert any("transpose" in row.path for row in rows)


def test_the_line_is_the_users():
    """Also where a trace is met again, which keeps the frames of its first time."""

    def f(x, u):
        once = js.mint.index_add(x, 0, IDS, u)
        again = js.mint.index_add(once, 0, IDS, u)
        return again.at[IDS].add(u)

    start = inspect.getsourcelines(f)[1]
    want = [f"{pathlib.Path(__file__).name}:{start + k}" for k in (1, 2, 3)]
    for _ in range(2):
        assert [row.where for row in js.explain(f, X, U).rows] == want


def test_the_table():
    f = lambda x, u: js.tf.tensor_scatter_nd_add(x, IDS[:, None], u)
    found = js.explain(jax.jit(f), X, jax.ShapeDtypeStruct(U.shape, U.dtype))
    head, titles, line = str(found).splitlines()
    assert head == "On cpu: 1 scatters and gathers, 1 of them jscatter's."
    assert titles.split() == "line function operation shapes runs why within".split()
    assert line.split("  ")[0].startswith("test_explain.py:")
    for text in (
        "tf.tensor_scatter_nd_add",
        "scatter_add rows",
        "f32[6,4] <- f32[16,4]",
        "no kernel is written for cpu",
    ):
        assert text in line
    assert repr(found) == str(found)
    assert str(js.explain(lambda x: x + 1, X)) == (
        "On cpu: 0 scatters and gathers, 0 of them jscatter's."
    )


def test_symbolic_sizes():
    n, m = jax.export.symbolic_shape("n, m")
    types = [jax.ShapeDtypeStruct((d, 4), F) for d in (n, m)]
    ids = jax.ShapeDtypeStruct((m,), np.int32)
    f = lambda x, u, i: js.mint.index_add(x, 0, i, u)
    (row,) = js.explain(f, *types, ids).rows
    assert row.shapes == "f32[?,4] <- f32[?,4]"


def test_mistakes():
    with pytest.raises(TypeError, match="explain: `fun` must be callable; got fun 3"):
        js.explain(3)
    with pytest.raises(ValueError, match="explain: `platform` must be one of None, 'c"):
        js.explain(add, X, U, platform="xpu")
    assert js.explain(take, X, platform="gpu").platform == "cuda"
    with pytest.raises(NotImplementedError, match="on tpu: no kernel is written for t"):
        js.explain(add, X, U, platform="tpu")
