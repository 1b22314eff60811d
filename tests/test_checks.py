"""`mode="error"`: concrete and traced indices, promises; every function and form."""

import re

import cases
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from cases import CASES
from jax.experimental import checkify
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscatter as js

F, I = np.float32, np.int32
IN_BOUNDS = "must be in"
FORMS = {form: place for form, place in cases.FORMS.items() if form != "csr"}


def reports(f, *args):
    """What checkify says of a jitted function, or None."""
    err, out = checkify.checkify(jax.jit(f))(*args)
    return err.get(), out


# -- every function --------------------------------------------------------------------

# What a case's function calls its indices, and with mode="error".
FIRST = {}
for _key, _case in CASES.items():
    FIRST.setdefault((_case.name.split()[0], _case.form), _key)
SOME = [k for (name, form), k in FIRST.items() if form in FORMS]


@pytest.fixture
def in_mode_error(monkeypatch):
    """Every call gets mode="error" beside its own options."""
    from jscatter import _call

    run = _call.run

    def with_mode(call, *args, given, **more):
        return run(call, *args, given={**given, "mode": "error"}, **more)

    monkeypatch.setattr(_call, "run", with_mode)


@pytest.mark.parametrize("key", SOME)
def test_every_function_names_the_first_index_outside(key, in_mode_error):
    case = CASES[key]
    kind, dim, x, i, _ = cases.FORMS[case.form]
    sites = list(oracle.sites(kind, x.shape, i, dim))
    depth = i.shape[-1] if kind == "nd" else 1
    sizes = x.shape[dim : dim + depth] if kind == "nd" else (x.shape[dim],)
    vectors = i if kind == "nd" else i[..., None]
    batch = vectors.shape[:-1] or (1,)
    flat = vectors.reshape(int(np.prod(batch)), depth)
    outside = [k for k, v in enumerate(flat) if not ((0 <= v) & (v < sizes)).all()]
    assert bool(outside) == (None in [to for _, to in sites])  # the oracle agrees
    run = lambda indices: case.call(case.arrays[0], indices, case.arrays[2])
    if not outside:
        want = case.call(*case.arrays)
        np.testing.assert_array_equal(run(i), want)
        assert reports(run, i)[0] is None
        return
    position = np.array(np.unravel_index(outside[0], batch))
    bad = flat[outside[0]]
    got = f"{bad if kind == 'nd' else bad[0]} at position "
    got += f"{position if len(position) > 1 else position[0]}."
    with pytest.raises(IndexError) as caught:
        run(i)
    text = str(caught.value)
    bounds = " x ".join(f"[0, {n})" for n in sizes)
    name = case.name.split()[0]
    assert text.startswith(f"{name}: `") and text.endswith(got)
    assert f"must be in {bounds} under mode='error'; got" in text
    said, out = reports(run, i)
    assert said.startswith(text)
    np.testing.assert_allclose(out, case.loops(*case.arrays), 1e-5, 1e-6)  # dropped


# -- promises --------------------------------------------------------------------------


def _sorted(kind, dim, i):
    if kind == "along" or (kind == "nd" and dim):
        return np.sort(i, dim)
    flat = i.reshape(-1, *i.shape[-1:] if kind == "nd" else ()) if i.size else i
    return np.sort(flat, 0).reshape(i.shape)


FUNS = {
    "nd": lambda dim, x, i, **o: js.tf.gather_nd(x, i, dim, **o),
    "along": lambda dim, x, i, **o: js.mint.gather(x, dim, i, **o),
    "rows": lambda dim, x, i, **o: js.ops.take(jnp.moveaxis(x, dim, 0), i, **o),
}


@pytest.mark.parametrize("promise", ["indices_are_sorted", "unique_indices"])
@pytest.mark.parametrize("form", FORMS)
def test_promises_are_checked(form, promise):
    """Against loops over each lane, for indices that keep them and that do not."""
    kind, dim, x, i, _ = FORMS[form]
    rng = np.random.default_rng(0)
    seen = set()
    fun = lambda i: FUNS[kind](dim, x, i, mode="error", **{promise: True})
    checked = checkify.checkify(jax.jit(fun))
    depth = i.shape[-1] if kind == "nd" else 1
    sizes = x.shape[dim : dim + depth] if kind == "nd" else x.shape[dim]
    for k in range(12):
        i = rng.integers(0, sizes, i.shape).astype(i.dtype)
        if k % 3 == 1:  # each lane in order
            i = _sorted(kind, dim, i)
        if k % 3 == 2 and i.size:  # the first few of each lane are different
            i = (np.arange(i.size).reshape(i.shape) % np.max(sizes)).astype(i.dtype)
            i = np.minimum(i, np.asarray(sizes) - 1).astype(i.dtype)
        if promise == "unique_indices":
            kept = all(
                len(set(lane)) == len(lane) for lane in oracle.lanes(kind, i, dim)
            )
        else:
            kept = all(lane == sorted(lane) for lane in oracle.lanes(kind, i, dim))
        seen.add(kept)
        said = checked(i)[0].get()
        if kept:
            fun(i)
            assert said is None
        else:
            word = "unique" if promise == "unique_indices" else "sorted"
            with pytest.raises(IndexError, match=f"must be {word}, as {promise}") as e:
                fun(i)
            assert said.startswith(str(e.value))
    assert False in seen or i.size < 4 or not depth  # one alone keeps every promise
    assert True in seen or promise == "unique_indices"


def test_the_text_of_promises():
    x = jnp.zeros(9)
    for ids, options, text in (
        (
            [0, 3, 3, 2, 1],
            {"indices_are_sorted": True},
            "ops.take: `ids` must be sorted, as indices_are_sorted promises; got 2 at"
            " position 3 after a larger one.",
        ),
        (
            [0, 3, 2, 3, 0],
            {"unique_indices": True},
            "ops.take: `ids` must be unique, as unique_indices promises; got 3 at"
            " position 3 again.",
        ),
        (  # what is outside comes first
            [0, 3, 2, 9, 0],
            {"unique_indices": True, "wrap_negative_indices": True},
            "ops.take: `ids` must be in [-9, 9) under mode='error'; got 9 at position"
            " 3.",
        ),
    ):
        with pytest.raises(IndexError, match=re.escape(text) + "$"):
            js.ops.take(x, np.array(ids), mode="error", **options)


# -- indices as they were given --------------------------------------------------------


@pytest.mark.parametrize(
    "ids, said",
    [
        (np.array([0, 2**40]), 2**40),
        (np.array([0, 2**63], np.uint64), 2**63 - 1),
        (np.array([1, -128], np.int8), -128),
        (np.array([1, 255], np.uint8), 255),
        (jnp.array([1, 4]), 4),
    ],
)
def test_narrow_wide_and_unsigned(ids, said):
    with pytest.raises(IndexError, match=rf"got {said} at position 1\.$"):
        js.ops.take(jnp.zeros(4), ids, mode="error")


def test_lists_and_wrapping():
    with pytest.raises(IndexError, match=r"in \[-2, 2\) x \[-3, 3\) .* got \[-3  0\] "):
        js.tf.scatter_nd(
            [[0, -3], [-3, 0]], [1, 2], [2, 3], mode="error", wrap_negative_indices=True
        )
    kept = js.mint.index_select(
        [1, 2, 3], 0, [-3, -1], mode="error", wrap_negative_indices=True
    )
    assert kept.tolist() == [1, 3]


def test_promises_are_about_the_indices_as_given():
    """-1 stands before 0 and is not 5, whatever row it wraps to."""
    x = jnp.zeros(6)
    options = dict(mode="error", wrap_negative_indices=True)
    take = lambda ids, **o: js.ops.take(x, np.array(ids), **options, **o)
    take([-1, 0, 1], indices_are_sorted=True)
    take([-1, 5], unique_indices=True)
    with pytest.raises(IndexError, match="got -1 at position 2 after a larger one"):
        take([0, 1, -1], indices_are_sorted=True)
    traced = lambda i: js.ops.take(x, i, indices_are_sorted=True, **options)
    assert reports(traced, np.array([-1, 0, 1]))[0] is None
    assert "sorted" in reports(traced, np.array([0, 1, -1]))[0]


class Wrapped:
    def __jax_array__(self):
        return jnp.array([0, 9])


def test_indices_in_other_clothes():
    with pytest.raises(IndexError, match="got 9 at position 1"):
        js.ops.take(jnp.zeros(3), Wrapped(), mode="error")
    with pytest.raises(IndexError, match=r"got \[9223372036854775807\] at position 0"):
        js.tf.gather_nd([1.0, 2.0], [[2**70]], mode="error")
    far = np.array([0, 2**40])
    for call in (
        lambda: js.pyg.scatter([1.0, 2.0], far, dim_size=3, mode="error"),
        lambda: js.bnns.gather(0, [1.0, 2.0], far, mode="error"),
        lambda: js.pyg.scatter(
            np.ones((2, 2), F), far[:, None], 0, dim_size=3, mode="error"
        ),
    ):
        with pytest.raises(IndexError, match=f"got {2**40} at position"):
            call()


def test_other_mistakes_come_first():
    with pytest.raises(TypeError, match="dtype of `input`"):
        js.mint.index_add(np.zeros(2, F), 0, [5], np.zeros(1, I), mode="error")
    with pytest.raises(ValueError, match="same rank"):
        js.mint.gather(np.zeros((2, 2), F), 0, [5], mode="error")


# -- traced ----------------------------------------------------------------------------

TEXT = "ops.segment_sum: `segment_ids` must be in [0, 3) under mode='error'; got 7 at"
GOOD, BAD = np.array([0, 2, 1], I), np.array([0, 7, 1], I)


def total(x, ids):
    return js.ops.segment_sum(x, ids, 3, mode="error")


TRACED = {
    "jit": total,
    "grad": lambda x, ids: jax.grad(lambda x: (total(x, ids) ** 2).sum())(x),
    "jvp": lambda x, ids: jax.jvp(lambda x: total(x, ids), (x,), (x,))[1],
    "vmap": lambda x, ids: jax.vmap(total)(jnp.stack([x, x]), jnp.stack([ids, ids])),
    "scan": lambda x, ids: jax.lax.scan(
        lambda c, _: (c + total(x, ids), None), x, None, 2
    )[0],
    "cond": lambda x, ids: jax.lax.cond(ids[0] == 0, total, lambda x, i: x, x, ids),
    "remat": jax.checkpoint(total),
}


@pytest.mark.parametrize("name", TRACED)
def test_checkify_reports_under(name):
    f, x = TRACED[name], np.ones(3, F)
    said, _ = reports(f, x, BAD)
    assert said.startswith(TEXT)
    assert reports(f, x, GOOD)[0] is None
    # Without checkify it is dropped, silently: so says the documentation.
    assert np.isfinite(jax.jit(f)(x, BAD)).all()


def test_an_explicit_mesh_is_refused():
    """JAX's own rule for a check under vmap fails on a sharded batch."""
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        ids = jax.device_put(np.zeros((4, 3), I), NamedSharding(mesh, P("x")))
        f = lambda i: js.ops.segment_count(i, 4, mode="error")
        with pytest.raises(
            NotImplementedError, match="^ops.segment_count: mode='error"
        ):
            jax.jit(jax.vmap(f))(ids)
        assert f(np.asarray(ids)).tolist() == [12, 0, 0, 0]  # these are concrete


def test_more_rows_than_the_indices_can_name():
    rows = jax.ShapeDtypeStruct((200, 2), F)
    ids = jax.ShapeDtypeStruct((3,), np.int8)
    f = lambda x, i: js.ops.take(x, i, mode="error")
    assert jax.eval_shape(f, rows, ids).shape == (3, 2)


def test_a_concrete_index_inside_a_jit():
    with pytest.raises(IndexError, match=re.escape(TEXT)):
        jax.jit(lambda x: total(x, BAD))(np.ones(3, F))
    with pytest.raises(IndexError, match=re.escape(TEXT)):
        jax.grad(lambda x: total(x, BAD).sum())(np.ones(3, F))


def test_export_drops_the_check_and_a_checkified_export_keeps_it():
    x = np.ones(3, F)
    export = lambda f: jax.export.export(jax.jit(f), platforms=("cpu", "tpu"))(x, BAD)
    dropped = export(total)
    assert dropped.call(x, BAD).tolist() == [1, 1, 0]
    with pytest.raises(NotImplementedError, match="ErrorEffect"):
        dropped.serialize()  # JAX's limit: the program still says that it may fail
    checked = checkify.checkify(jax.jit(total))
    kept = export(checked)
    assert kept.call(x, BAD)[0].get().startswith(TEXT)
    assert kept.call(x, GOOD)[0].get() is None
    # What JAX can serialise are arrays: whether it failed, and where.
    arrays = export(lambda x, ids: jax.tree.leaves(checked(x, ids)[0]))
    back = jax.export.deserialize(arrays.serialize())
    failed, _, index, position = back.call(x, BAD)
    assert failed and index == 7 and position == 1
    assert not back.call(x, GOOD)[0]


def test_the_check_costs_nothing_where_it_is_not_asked_for():
    """Neither without the mode, nor with it and without checkify."""

    def operations(f):
        text = jax.jit(f).lower(np.ones(3, F), GOOD).compile().as_text()
        return sum(" = " in line for line in text.splitlines())

    assert operations(total) == operations(lambda x, i: js.ops.segment_sum(x, i, 3))
