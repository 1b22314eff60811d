"""docs/errors.md against the library: nothing is raised that does not stand there."""

import collections
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from test_validate import GOOD, KEY, MISTAKES, ODD, OPTIONS, F, I

import jscatter as js

DOC = pathlib.Path(__file__).parents[1] / "docs/errors.md"
ERRORS = {
    "TypeError": TypeError,
    "ValueError": ValueError,
    "IndexError": IndexError,
    "NotImplementedError": NotImplementedError,
}


def catalogue():
    """(error, a pattern of the whole text) of each line."""
    out = []
    for line in DOC.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 6 and cells[1] in ERRORS:
            rule = re.sub(r"<\w+>", ".+?", re.escape(cells[2]))
            pattern = rf"[a-z]+(\.\w+)?: {rule}(; got .+)?\."
            out.append((ERRORS[cells[1]], re.compile(pattern, re.DOTALL)))
    return out


CATALOGUE = catalogue()


def line_of(error: Exception):
    """The first line that says this, or None."""
    for k, (kind, pattern) in enumerate(CATALOGUE):
        if type(error) is kind and pattern.fullmatch(str(error)):
            return k
    return None


def on_a_mesh():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.sharding.reshard(np.ones(4, F), jax.P(reduced={"x"}))
        return js.ops.take(x, np.zeros(2, I))


def with_symbols(shape):
    n = jax.export.symbolic_shape("n")[0]
    ids = jax.ShapeDtypeStruct((3, n), I)
    if shape is None:
        return jax.eval_shape(js.tf.gather_nd, jax.ShapeDtypeStruct((4, 4), F), ids)
    ids = jax.ShapeDtypeStruct((3,), I)
    x = jax.ShapeDtypeStruct((3,), F)
    return jax.eval_shape(lambda x, i: js.ops.segment_sum(x, i, shape(n)), x, ids)


def checked_on_a_mesh():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        ids = jax.device_put(IDS, jax.P("x"))
        return jax.jit(lambda i: js.ops.segment_count(i, 2, mode="error"))(ids)


X, IDS = np.ones(2, F), np.zeros(2, I)
# What the list of test_validate has not.
MORE = [
    lambda: js.ops.take(KEY, IDS),
    lambda: js.ops.take(np.ma.masked_array([1.0, 2.0]), IDS),
    lambda: js.mint.gather([True, 2], 0, [0]),
    lambda: jax.jit(lambda d: js.mint.gather(X, d, IDS))(0),
    lambda: js.tf.scatter_nd([[0]], [1.0], np.ones(1, F)),
    lambda: js.tf.scatter_nd([[0]], [1.0], np.ones((1, 1), I)),
    lambda: with_symbols(lambda n: n - 5),
    lambda: with_symbols(None),
    lambda: jax.jit(lambda i: js.ops.segment_sum(X, i))(IDS),
    lambda: js.pyg.softmax(np.ones((2, 2), F), np.zeros(3, I), 2),
    lambda: jax.eval_shape(
        js.ops.take,
        jax.ShapeDtypeStruct((2**31, 1), np.int8),
        jax.ShapeDtypeStruct((2,), np.int32),
    ),
    lambda: js.tf.unsorted_segment_sum(X, IDS, 2, name=3),
    lambda: js.explain(3),
    lambda: js.ops.take(X, IDS + 2, mode="error"),
    lambda: js.ops.take(X, 1 - np.arange(2), mode="error", indices_are_sorted=True),
    lambda: js.ops.take(X, IDS, mode="error", unique_indices=True),
    lambda: js.mint.index_add(X, 0, IDS, X, implementation="pallas"),
    on_a_mesh,
    checked_on_a_mesh,
    lambda: js.mint.index_add(np.zeros(2, np.int8), 0, IDS, [300, 1]),
    lambda: js.mint.index_add(X, 0, IDS, X, alpha=None),
    lambda: js.bnns.scatter_nd(2.5, X, IDS[:, None], X),
    lambda: js.bnns.scatter("sum", "sum", X, IDS, X),
    lambda: js.bnns.scatter(0, "sum", X, IDS, X, filter_params=1),
    lambda: js.tf.gather_nd(X[None], np.zeros((1, 1, 2), I), 1),
    lambda: js.mint.gather(X[None], 0, IDS),
    lambda: js.mint.scatter_add(X, 0, np.zeros(3, I), X),
    lambda: js.mint.gather(np.ones((2, 2), F), 0, np.zeros((1, 3), I)),
    lambda: js.bnns.scatter(0, "sum_square", X > 0, IDS, X > 0),
    lambda: js.bnns.scatter(0, "mean_non_zero", IDS, IDS, IDS),
]
X64 = jax.config.jax_enable_x64


def raised(f, *args, **kwargs):
    with pytest.raises(tuple(ERRORS.values())) as caught:
        f(*args, **kwargs)
    return caught.value


def test_the_catalogue_is_what_is_raised():
    """Each mistake of the tests stands there, and each line is met by one."""
    assert len(CATALOGUE) > 60
    met = collections.Counter()
    mistakes = [lambda m=m: m[0](*m[1], **m[2]) for m in MISTAKES] + MORE
    for f in mistakes:
        error = raised(f)
        assert line_of(error) is not None, error
        met.update(
            k
            for k, (kind, pattern) in enumerate(CATALOGUE)
            if type(error) is kind and pattern.fullmatch(str(error))
        )
    missing = [p.pattern for k, (_, p) in enumerate(CATALOGUE) if not met[k]]
    assert not missing, "\n".join(missing)


# -- by property -----------------------------------------------------------------------

STATIC = "dim axis shape num_segments dim_size reduce include_self op ddof eps".split()
STATIC += [
    "bucket_size",
    "constant",
    "batch_dims",
    "epsilon",
    "filter_params",
    "name",
    *OPTIONS,
]
SHAPES = [(), (0,), (1,), (2,), (3,), (1, 1), (2, 2), (2, 3), (1, 1, 1), (0, 2)]
DTYPES = "bool int8 uint8 int32 uint32 float16 bfloat16 float32 complex64".split()
DTYPES += ["float8_e8m0fnu", "float8_e4m3fn", "int4"]
NUMBERS = [0, 1, -1, 2, 3, -4, 2**31, -(2**40), 10**400, True, 0.5, 1j]
NUMBERS += [float("nan"), float("inf")]
WORDS = ["sum", "mean", "prod", "amax", "none", "arg_max", "log_sum", "clip", "error"]
WORDS += ["drop", "pallas", "xla", "exact", "mul", ""]


@st.composite
def anything(draw):
    kind = draw(st.integers(0, 5))
    if kind < 3:
        shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES))
        return np.ones(shape, jnp.dtype(dtype))
    pool = [list(ODD.values()), NUMBERS, WORDS][kind - 3]
    return draw(st.sampled_from(pool))


FUNCTIONS = {f"{f.__module__}.{f.__name__}": f for f in GOOD}


@pytest.mark.filterwarnings("ignore:overflow|invalid value")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_is_wrong_the_text_is_in_the_catalogue(name, pytestconfig):
    """One to three arguments are anything; eager, under jit and under vmap."""
    fun, seen = FUNCTIONS[name], collections.Counter()
    good = GOOD[fun]

    def call(how, given):
        static = {k: v for k, v in given.items() if k in STATIC or not is_array(v)}
        arrays = {k: v for k, v in given.items() if k not in static}
        run = lambda arrays: fun(**arrays, **static)
        if how == "jit" and arrays:
            return jax.jit(run)(arrays)
        if how == "vmap" and arrays:
            return jax.vmap(run)({k: np.stack([v, v]) for k, v in arrays.items()})
        return run(arrays)

    @seed(0)
    @settings(
        max_examples=400 if pytestconfig.getoption("--full") else 25,
        deadline=None,
        database=None,
    )
    @given(st.data())
    def run(data):
        names = st.sampled_from(sorted(good | dict.fromkeys(OPTIONS)))
        wrong = data.draw(st.lists(names, min_size=1, max_size=3, unique=True))
        given_ = good | {k: data.draw(anything(), label=k) for k in wrong}
        for how in ("eager", "jit", "vmap"):
            try:
                call(how, given_)
                seen["right"] += 1
            except tuple(ERRORS.values()) as error:
                assert line_of(error) is not None, (how, given_, str(error))
                seen["wrong"] += 1

    run()
    assert seen["wrong"] >= 20, seen


def is_array(x):
    """What a caller may pass through a jit."""
    plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
    return plain and x.dtype.name in DTYPES
