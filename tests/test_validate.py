"""Every mistake gets an error of ours that names the function, the rule and the value."""

import inspect

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscatter as js

F, I = np.float32, np.int32
KEY = jax.random.key(0)

# (function, arguments, options, error, the whole text)
MISTAKES = [
    # kind
    (
        js.ops.segment_sum,
        ([1.0, 2.0], np.zeros(2, I), 3),
        {},
        TypeError,
        "ops.segment_sum: `data` must be an array, not a list: jnp.asarray it.",
    ),
    (
        js.ops.take,
        (np.zeros(3, F), [0]),
        {},
        TypeError,
        "ops.take: `ids` must be an array, not a list: jnp.asarray it.",
    ),
    (
        js.tf.scatter_nd,
        ([[0]], ["a"], [1]),
        {},
        TypeError,
        "tf.scatter_nd: `updates` must be numeric or bool; JAX has no strings, objects"
        " or dates; got str.",
    ),
    (
        js.tf.gather_nd,
        ("abc", [[0]]),
        {},
        TypeError,
        "tf.gather_nd: `params` must be numeric or bool; JAX has no strings, objects or"
        " dates; got str.",
    ),
    (
        js.mint.scatter_add,
        (object(), 0, [0], [1]),
        {},
        TypeError,
        "mint.scatter_add: `input` must be an array; got input object.",
    ),
    (
        js.tf.scatter_nd,
        ([[0], [1, 2]], [1, 2], [3]),
        {},
        ValueError,
        "tf.scatter_nd: `indices` must be a rectangular nested list of numbers",
    ),
    # rank
    (
        js.tf.scatter_nd,
        (I(0), F(1), [2]),
        {},
        ValueError,
        "tf.scatter_nd: `indices` must have rank 1 or more: its last dimension is the"
        " index; got indices int32[].",
    ),
    (
        js.tf.tensor_scatter_nd_add,
        (np.zeros(2, F), np.zeros((1, 2), I), np.zeros(1, F)),
        {},
        ValueError,
        "tf.tensor_scatter_nd_add: `indices.shape[-1]` must be at most the rank of"
        " `tensor`; got indices int32[1,2], tensor float32[2].",
    ),
    (
        js.bnns.gather_nd,
        (np.zeros((2, 2), F), np.zeros((1, 3), I)),
        {},
        ValueError,
        "bnns.gather_nd: `indices.shape[-1]` must be at most the rank of `input`; got"
        " indices int32[1,3], input float32[2,2].",
    ),
    (
        js.mint.index_add,
        (np.zeros((2, 2), F), 0, np.zeros((1, 1), I), np.zeros((1, 2), F)),
        {},
        ValueError,
        "mint.index_add: `index` must have rank 1; got index int32[1,1].",
    ),
    (
        js.ops.take,
        (F(1), np.zeros(2, I)),
        {},
        ValueError,
        "ops.take: `table` must have rank 1 or more; got table float32[].",
    ),
    # dim
    (
        js.mint.scatter_add,
        (np.zeros((2, 2), F), np.zeros((2, 2), I), 0, np.zeros((2, 2), F)),
        {},
        TypeError,
        "mint.scatter_add: `dim` must be an int (PyG's order is `scatter(src, index,"
        " dim)`: see `jscatter.pyg`); got dim int32[2,2].",
    ),
    (
        js.mint.gather,
        (np.zeros(2, F), True, np.zeros(2, I)),
        {},
        TypeError,
        "mint.gather: `dim` must be an int; got dim True.",
    ),
    (
        js.mint.index_select,
        (np.zeros(2, F), 1.0, np.zeros(2, I)),
        {},
        TypeError,
        "mint.index_select: `dim` must be an int; got dim 1.0.",
    ),
    (
        js.mint.index_select,
        (np.zeros(2, F), 1, np.zeros(2, I)),
        {},
        ValueError,
        "mint.index_select: `dim` must be in [-1, 1); got dim 1.",
    ),
    (
        js.tf.gather_nd,
        (np.zeros((2, 2), F), np.zeros((2, 1), I), 2),
        {},
        ValueError,
        "tf.gather_nd: `batch_dims` must be less than the rank of `indices`; got"
        " batch_dims 2, indices int32[2,1], params float32[2,2].",
    ),
    (
        js.tf.gather_nd,
        (np.zeros((2, 2), F), np.zeros((3, 1), I), 1),
        {},
        ValueError,
        "tf.gather_nd: `indices` and `params` must agree in the first `batch_dims`"
        " dimensions; got batch_dims 1, indices int32[3,1], params float32[2,2].",
    ),
    # sizes
    (
        js.tf.scatter_nd,
        (np.zeros((2, 1), I), np.zeros(3, F), [4]),
        {},
        ValueError,
        "tf.scatter_nd: `updates.shape` must be indices.shape[:-1] + shape[1:] = (2,);"
        " got updates float32[3], indices int32[2,1], shape (4,).",
    ),
    (
        js.bnns.scatter_nd,
        ("sum", F(1), np.zeros((2, 1), I), np.zeros(4, F)),
        {},
        ValueError,
        "bnns.scatter_nd: `input.shape` must be indices.shape[:-1] + output.shape[1:] ="
        " (2,); got input float32[], indices int32[2,1], output float32[4].",
    ),
    (
        js.tf.scatter_nd,
        (np.zeros((2, 1), I), np.zeros(2, F), [-4]),
        {},
        ValueError,
        "tf.scatter_nd: `shape` must not be negative; got shape -4.",
    ),
    (
        js.tf.scatter_nd,
        (np.zeros((2, 1), I), np.zeros(2, F), [4.5]),
        {},
        TypeError,
        "tf.scatter_nd: `shape` must hold integers; got shape 4.5.",
    ),
    (
        js.tf.scatter_nd,
        (np.zeros((2, 1), I), np.zeros(2, F), np.zeros((1, 1), I)),
        {},
        ValueError,
        "tf.scatter_nd: `shape` must be an int or integers of rank 1; got shape"
        " int32[1,1].",
    ),
    (
        js.mint.index_add,
        (np.zeros((2, 3), F), 1, np.zeros(2, I), np.zeros((2, 3), F)),
        {},
        ValueError,
        "mint.index_add: `source.shape` must be `input.shape` with dimension 1 as long as"
        " `index`, (2, 2); got source float32[2,3], input float32[2,3], index int32[2].",
    ),
    (
        js.ops.segment_sum,
        (np.zeros((3, 2), F), np.zeros(2, I), 3),
        {},
        ValueError,
        "ops.segment_sum: `segment_ids.shape` must be a prefix of `data.shape`; got"
        " segment_ids int32[2], data float32[3,2].",
    ),
    (
        js.ops.segment_sum,
        (np.zeros(2, F), np.zeros(2, I), -1),
        {},
        ValueError,
        "ops.segment_sum: `num_segments` must not be negative; got num_segments -1.",
    ),
    (
        js.ops.segment_sum,
        (np.zeros(2, F), np.zeros(2, I), 2.0),
        {},
        TypeError,
        "ops.segment_sum: `num_segments` must hold integers; got num_segments 2.0.",
    ),
    # dtype
    (
        js.tf.scatter_nd,
        (np.zeros((2, 1), F), np.zeros(2, F), [4]),
        {},
        TypeError,
        "tf.scatter_nd: `indices` must have an integer dtype; got indices float32[2,1].",
    ),
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, bool)),
        {},
        TypeError,
        "ops.take: `ids` must have an integer dtype; got ids bool[2].",
    ),
    (
        js.mint.gather,
        (np.zeros(2, F), 0, np.zeros(2, np.uint8)),
        {},
        TypeError,
        "mint.gather: `index` must be int32 or int64; got index uint8[2].",
    ),
    (
        js.tf.tensor_scatter_nd_add,
        (np.zeros(2, F), [[0]], np.zeros(1, np.float16)),
        {},
        TypeError,
        "tf.tensor_scatter_nd_add: `updates` must have the dtype of `tensor`; got updates"
        " float16[1], tensor float32[2].",
    ),
    (
        js.tf.tensor_scatter_nd_add,
        (np.zeros(2, I), [[0]], [1.5]),
        {},
        TypeError,
        "tf.tensor_scatter_nd_add: `updates` must have the dtype of `tensor`; got updates"
        " float32[1], tensor int32[2].",
    ),
    (
        js.mint.scatter,
        (np.zeros(2, I), 0, [0], 1.7),
        {},
        TypeError,
        "mint.scatter: `src` must have the dtype of `input`; got src float32[1], input"
        " int32[2].",
    ),
    (
        js.ops.take,
        (jnp.zeros(2, jnp.float8_e8m0fnu), np.zeros(2, I)),
        {},
        TypeError,
        "ops.take: `table` must have a dtype that holds a zero; got table"
        " float8_e8m0fnu[2].",
    ),
    (
        js.ops.take,
        (KEY.reshape(1), np.zeros(2, I)),
        {},
        TypeError,
        "ops.take: `table` must be numeric or bool; got table key<fry>[1].",
    ),
    (
        js.tf.tensor_scatter_nd_sub,
        ([True], [[0]], [True]),
        {},
        TypeError,
        "tf.tensor_scatter_nd_sub: bool has no subtraction; got updates bool[1].",
    ),
    (
        js.tf.tensor_scatter_nd_div,
        ([4], [[0]], [2]),
        {},
        TypeError,
        "tf.tensor_scatter_nd_div: division needs a float or complex dtype; got updates"
        " int32[1].",
    ),
    (
        js.ops.segment_mean,
        (np.zeros(2, bool), np.zeros(2, I), 1),
        {},
        TypeError,
        "ops.segment_mean: bool has no mean; got data bool[2].",
    ),
    (
        js.ops.segment_max,
        (np.zeros(2, np.complex64), np.zeros(2, I), 1),
        {},
        TypeError,
        "ops.segment_max: complex numbers have no order; got data complex64[2].",
    ),
    (
        js.mint.index_add,
        ([1, 2], 0, [0], [1]),
        {"alpha": 0.5},
        TypeError,
        "mint.index_add: `alpha` must fit int32; got alpha float32[].",
    ),
    # options and names
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"mode": "wrap"},
        ValueError,
        "ops.take: `mode` must be one of None, 'drop', 'fill', 'clip', 'error',"
        " 'promise_in_bounds'; got mode 'wrap'.",
    ),
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"mode": jax.lax.GatherScatterMode.ONE_HOT},
        ValueError,
        "ops.take: `mode` must be one of None, 'drop', 'fill', 'clip', 'error',"
        " 'promise_in_bounds'; got mode 'GatherScatterMode.ONE_HOT'.",
    ),
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"mode": 3},
        TypeError,
        "ops.take: `mode` must be one of None, 'drop', 'fill', 'clip', 'error',"
        " 'promise_in_bounds'; got mode '3'.",
    ),
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"wrap": True},
        TypeError,
        "ops.take: the options are wrap_negative_indices, implementation, deterministic,"
        " mode, indices_are_sorted, unique_indices, out_sharding; got wrap.",
    ),
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"unique_indices": 1},
        TypeError,
        "ops.take: `unique_indices` must be True or False, and static; got unique_indices"
        " 1.",
    ),
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"implementation": "triton"},
        ValueError,
        "ops.take: `implementation` must be one of None, 'xla', 'pallas'; got"
        " implementation 'triton'.",
    ),
    (
        js.mint.scatter,
        (np.zeros(2, F), 0, [0], [1.0]),
        {"reduce": "sum"},
        ValueError,
        "mint.scatter: `reduce` must be one of None, 'add', 'multiply'; got reduce 'sum'.",
    ),
    (
        js.bnns.scatter_nd,
        ("median", [1.0], [[0]], [1.0]),
        {},
        ValueError,
        "bnns.scatter_nd: `op` must be one of MAX, MIN, ARG_MAX, ARG_MIN, MEAN,"
        " MEAN_NON_ZERO, SUM, SUM_SQUARE, SUM_LOG, L1_NORM, LOGICAL_OR, ANY, LOGICAL_AND,"
        " ALL, L2_NORM, LOG_SUM_EXP, PRODUCT, NONE, LOG_SUM; got op 'median'.",
    ),
    (
        js.bnns.scatter_nd,
        (17, [1.0], [[0]], [1.0]),
        {},
        ValueError,
        "bnns.scatter_nd: `op` must be a ReduceFunction, its number or its name; got op 17.",
    ),
    (
        js.tf.scatter_nd,
        ([[0]], [1.0], [1]),
        {"name": 3},
        TypeError,
        "tf.scatter_nd: `name` must be a str; got name 3.",
    ),
    (
        js.mint.scatter_reduce,
        ([1.0], 0, [0], [1.0], "max"),
        {},
        ValueError,
        "mint.scatter_reduce: `reduce` must be one of 'sum', 'prod', 'mean', 'amax',"
        " 'amin'; got reduce 'max'.",
    ),
    (
        js.mint.index_reduce,
        ([1.0], 0, [0], [1.0], "sum"),
        {},
        ValueError,
        "mint.index_reduce: `reduce` must be one of 'prod', 'mean', 'amax', 'amin';"
        " got reduce 'sum'.",
    ),
    (
        js.mint.index_reduce,
        ([1.0], 0, [0], [1.0], "prod"),
        {"include_self": 1},
        TypeError,
        "mint.index_reduce: `include_self` must be True or False, and static; got"
        " include_self 1.",
    ),
    (
        js.mint.scatter_reduce,
        ([True], 0, [0], [True], "mean"),
        {},
        TypeError,
        "mint.scatter_reduce: bool has no mean; got src bool[1].",
    ),
    (
        js.ops.segment_variance,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"ddof": -1},
        ValueError,
        "ops.segment_variance: `ddof` must not be negative; got ddof -1.",
    ),
    (
        js.ops.segment_std,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"ddof": 1.0},
        TypeError,
        "ops.segment_std: `ddof` must be an int, and static; got ddof 1.0.",
    ),
    (
        js.ops.segment_normalize,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"eps": 0},
        ValueError,
        "ops.segment_normalize: `eps` must be positive and finite; got eps 0.0.",
    ),
    (
        js.ops.segment_softmax,
        (np.zeros(2, np.complex64), np.zeros(2, I), 2),
        {},
        TypeError,
        "ops.segment_softmax: it takes real numbers; got data complex64[2].",
    ),
    (
        js.ops.segment_argmax,
        (np.zeros(2, np.complex64), np.zeros(2, I), 2),
        {},
        TypeError,
        "ops.segment_argmax: complex numbers have no order; got data complex64[2].",
    ),
    (
        js.tf.unsorted_segment_sqrt_n,
        ([True], [0], 1),
        {},
        TypeError,
        "tf.unsorted_segment_sqrt_n: it takes real numbers; got data bool[1].",
    ),
    (
        js.tf.unsorted_segment_sum,
        ([1.0], [0], None),
        {},
        TypeError,
        "tf.unsorted_segment_sum: `num_segments` must hold integers; got num_segments"
        " None.",
    ),
    (
        js.bnns.scatter_nd,
        ("l2_norm", [1], [[0]], [1]),
        {},
        TypeError,
        "bnns.scatter_nd: it needs a float dtype; got input int32[1].",
    ),
    (
        js.bnns.scatter_nd,
        ("sum_log", [1.0], [[0]], [1.0]),
        {"epsilon": "1"},
        TypeError,
        "bnns.scatter_nd: `epsilon` must be a number, and static; got epsilon '1'.",
    ),
    # not written yet
    (
        js.ops.take,
        (np.zeros(2, F), np.zeros(2, I)),
        {"deterministic": "exact"},
        NotImplementedError,
        "ops.take: `deterministic` is not written yet; got 'exact'.",
    ),
    (
        js.ops.segment_sum,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"out_sharding": jax.P("x")},
        NotImplementedError,
        "ops.segment_sum: `out_sharding` is not written yet; got P('x',).",
    ),
    # spellings of their own
    (
        js.ops.segment_sum,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"bucket_size": 0},
        ValueError,
        "ops.segment_sum: `bucket_size` must be positive; got bucket_size 0.",
    ),
    (
        js.ops.segment_mean,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"bucket_size": 2.0},
        TypeError,
        "ops.segment_mean: `bucket_size` must be an int, and static; got bucket_size"
        " 2.0.",
    ),
    (
        js.ops.segment_max_or_constant,
        (np.zeros(2, I), np.zeros(2, I), 2),
        {"constant": 0.5},
        TypeError,
        "ops.segment_max_or_constant: `constant` must fit int32; got constant"
        " float32[].",
    ),
    (
        js.ops.segment_min_or_constant,
        (np.zeros(2, np.uint8), np.zeros(2, I), 2),
        {"constant": 256},
        ValueError,
        "ops.segment_min_or_constant: `constant` must fit uint8; got constant 256.",
    ),
    (
        js.ops.segment_max_or_constant,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"constant": None},
        TypeError,
        "ops.segment_max_or_constant: `constant` must be a number; got constant None.",
    ),
    (
        js.ops.segment_normalize,
        (np.zeros(2, F), np.zeros(2, I), 2),
        {"eps": 10**400},
        ValueError,
        "ops.segment_normalize: `eps` must be a number that a float holds.",
    ),
    (
        js.ops.segment_count,
        (np.zeros(2, F), 2),
        {},
        TypeError,
        "ops.segment_count: `segment_ids` must have an integer dtype; got segment_ids"
        " float32[2].",
    ),
    (
        js.mint.index_fill,
        (np.zeros((2, 2), F), 0, np.zeros(2, I), np.zeros(2, F)),
        {},
        ValueError,
        "mint.index_fill: `value` must be a scalar; got value float32[2].",
    ),
    (
        js.mint.index_fill,
        (np.zeros((2, 2), I), 0, np.zeros(2, I), 0.5),
        {},
        TypeError,
        "mint.index_fill: `value` must have the dtype of `input`; got value float32[],"
        " input int32[2,2].",
    ),
    (
        js.mint.index_copy,
        (np.zeros((2, 2), F), 1, np.zeros(3, I), np.zeros((3, 2), F)),
        {},
        ValueError,
        "mint.index_copy: `source.shape` must be `input.shape` with dimension 1 as long"
        " as `index`, (2, 3); got source float32[3,2], input float32[2,2], index"
        " int32[3].",
    ),
    (
        js.bnns.scatter,
        (2, "sum", np.zeros((2, 2), F), np.zeros(2, I), np.zeros((2, 2), F)),
        {},
        ValueError,
        "bnns.scatter: `axis` must be in [-2, 2); got axis 2.",
    ),
    (
        js.bnns.scatter,
        (0, "sum", np.zeros((2, 2), F), np.zeros((1, 2), I), np.zeros((2, 2), F)),
        {},
        ValueError,
        "bnns.scatter: `indices` must have the shape of `input`; got indices"
        " int32[1,2], input float32[2,2].",
    ),
    (
        js.bnns.gather,
        ("0", np.zeros((2, 2), F), np.zeros(2, I)),
        {},
        TypeError,
        "bnns.gather: `axis` must be an int; got axis '0'.",
    ),
    (
        js.pyg.scatter,
        (np.zeros((2, 3), F), np.zeros(2, I)),
        {},
        ValueError,
        "pyg.scatter: `index` must be as long as `src` in `dim`, or broadcast to its"
        " shape; got index int32[2], src float32[2,3], dim 1.",
    ),
    (
        js.pyg.scatter,
        (np.zeros((2, 3), F), np.zeros((2, 2), I), 0),
        {},
        ValueError,
        "pyg.scatter: `index` must be as long as `src` in `dim`, or broadcast to its"
        " shape; got index int32[2,2], src float32[2,3], dim 0.",
    ),
    (
        js.pyg.scatter,
        (np.zeros(2, F), np.zeros(2, I)),
        {"reduce": "prod"},
        ValueError,
        "pyg.scatter: `reduce` must be one of 'sum', 'add', 'mul', 'mean', 'min',"
        " 'max'; got reduce 'prod'.",
    ),
    (
        js.pyg.scatter,
        (F(1), np.zeros(2, I)),
        {},
        ValueError,
        "pyg.scatter: `src` must have rank 1 or more; got src float32[].",
    ),
    (
        js.pyg.segment_csr,
        (np.zeros(2, F), np.zeros((2, 2), I)),
        {},
        ValueError,
        "pyg.segment_csr: `indptr` must have rank 1 and at least one entry; got indptr"
        " int32[2,2].",
    ),
    (
        js.pyg.segment_csr,
        (np.zeros(2, F), np.zeros(2, I)),
        {"mode": "clip"},
        TypeError,
        "pyg.segment_csr: the options are implementation, deterministic, out_sharding;"
        " got mode.",
    ),
]
IDS = [text[:60] for *_, text in MISTAKES]


@pytest.mark.parametrize("fun, args, options, error, text", MISTAKES, ids=IDS)
def test_text(fun, args, options, error, text):
    with pytest.raises(error) as caught:
        fun(*args, **options)
    message = str(caught.value)
    if text.endswith("."):
        assert message == text
    else:  # what follows is NumPy's own reason
        assert message.startswith(text)


ARRAYS = [m for m in MISTAKES if all(isinstance(a, np.ndarray) for a in m[1][:2])]


# mint's `dim` stands between the arrays
ARRAYS += [
    (
        lambda x, i, *rest, fun=fun, dim=args[1], **o: fun(x, dim, i, *rest, **o),
        (args[0], *args[2:]),
        options,
        error,
        text,
    )
    for fun, args, options, error, text in MISTAKES
    if fun.__module__ == "jscatter.mint"
    and len(args) > 2
    and all(isinstance(args[k], np.ndarray) for k in (0, 2))
]


@pytest.mark.parametrize("fun, args, options, error, text", ARRAYS)
def test_same_text_under_jit_and_vmap(fun, args, options, error, text):
    assert len(ARRAYS) > 30
    with pytest.raises(error) as caught:
        jax.jit(lambda a, b: fun(a, b, *args[2:], **options))(*args[:2])
    assert str(caught.value) == text
    with pytest.raises(error) as caught:
        stacked = [np.stack([a, a]) for a in args[:2]]
        jax.vmap(lambda a, b: fun(a, b, *args[2:], **options))(*stacked)
    assert str(caught.value) == text


class Odd:
    """What a program may pass by mistake."""

    def __jax_array__(self):
        return "not an array"


ODD = {
    "None": None,
    "dict": {},
    "a type": np.float32,
    "jax.Array itself": jax.Array,
    "str": "1",
    "bytes": b"1",
    "masked": np.ma.masked_array([1, 2], [True, False]),
    "object": np.array([None, 1]),
    "long double": np.zeros(2, np.longdouble),
    "structured": np.zeros(2, [("a", I)]),
    "date": np.array(["2026-01-01"], "M8[D]"),
    "key": KEY,
    "float0": np.zeros(2, jax.dtypes.float0),
    "__jax_array__": Odd(),
    "ShapeDtypeStruct": jax.ShapeDtypeStruct((2,), F),
    "[None]": [None],
    "[[None]]": [[None]],
    "[dict]": [{}],
    "[key]": [KEY],
    "[date]": [np.datetime64(1, "D")],
    "ragged": [[], [2**64]],
    "mixed": [True, 2],
}
GOOD = {  # with one argument taken away each must fail, whatever stands there
    js.tf.scatter_nd: dict(indices=[[0]], updates=[1.0], shape=[2]),
    js.tf.tensor_scatter_nd_add: dict(tensor=[1.0], indices=[[0]], updates=[1.0]),
    js.tf.gather_nd: dict(params=[1.0], indices=[[0]]),
    js.mint.scatter_add: dict(input=[1.0], dim=0, index=[0], src=[1.0]),
    js.mint.scatter: dict(input=[1.0], dim=0, index=[0], src=[1.0]),
    js.mint.gather: dict(input=[1.0], dim=0, index=[0]),
    js.mint.index_add: dict(input=[1.0], dim=0, index=[0], source=[1.0], alpha=2),
    js.mint.index_select: dict(input=[1.0], dim=0, index=[0]),
    js.bnns.scatter_nd: dict(op="sum", input=[1.0], indices=[[0]], output=[1.0]),
    js.bnns.gather_nd: dict(input=[1.0], indices=[[0]]),
    js.ops.segment_sum: dict(
        data=np.ones(1, F),
        segment_ids=np.zeros(1, I),
        num_segments=1,
        bucket_size=3,
    ),
    js.ops.segment_mean: dict(data=np.ones(1, F), segment_ids=np.zeros(1, I)),
    js.ops.segment_variance: dict(
        data=np.ones(1, F), segment_ids=np.zeros(1, I), num_segments=1, ddof=0
    ),
    js.ops.segment_normalize: dict(
        data=np.ones(1, F), segment_ids=np.zeros(1, I), num_segments=1, eps=0.1
    ),
    js.tf.unsorted_segment_max: dict(data=[1.0], segment_ids=[0], num_segments=1),
    js.mint.scatter_reduce: dict(
        input=[1.0], dim=0, index=[0], src=[1.0], reduce="sum", include_self=True
    ),
    js.mint.index_reduce: dict(
        input=[1.0], dim=0, index=[0], source=[1.0], reduce="prod", include_self=True
    ),
    js.ops.take: dict(table=np.ones(1, F), ids=np.zeros(1, I)),
    js.ops.segment_any: dict(data=np.ones(1, F), segment_ids=np.zeros(1, I)),
    js.ops.segment_count: dict(segment_ids=np.zeros(1, I), num_segments=1),
    js.ops.segment_max_or_constant: dict(
        data=np.ones(1, F), segment_ids=np.zeros(1, I), num_segments=1, constant=2
    ),
    js.mint.index_copy: dict(input=[1.0], dim=0, index=[0], source=[1.0]),
    js.mint.index_fill: dict(input=[1.0], dim=0, index=[0], value=1.0),
    js.bnns.scatter: dict(axis=0, op="sum", input=[1.0], indices=[0], output=[1.0]),
    js.bnns.gather: dict(axis=0, input=[1.0], indices=[0]),
    js.pyg.scatter: dict(src=[1.0], index=[0], dim=0, dim_size=1, reduce="mul"),
    js.pyg.softmax: dict(src=[1.0], index=[0], dim_size=1),
    js.pyg.segment_csr: dict(src=[1.0], indptr=[0, 1], reduce="sum"),
}
GOOD |= {
    getattr(js.tf, f"tensor_scatter_nd_{name}"): GOOD[js.tf.tensor_scatter_nd_add]
    for name in "sub mul div min max update".split()
}
GOOD |= {
    getattr(js.tf, f"unsorted_segment_{name}"): GOOD[js.tf.unsorted_segment_max]
    for name in "sum prod min mean sqrt_n".split()
}
GOOD |= {
    getattr(js.ops, f"segment_{name}"): GOOD[js.ops.segment_sum]
    for name in "prod min max logsumexp softmax log_softmax argmax argmin all".split()
}
GOOD[js.ops.segment_std] = GOOD[js.ops.segment_variance]
GOOD[js.ops.segment_min_or_constant] = GOOD[js.ops.segment_max_or_constant]
OPTIONS = dict.fromkeys(js.Options.__annotations__)
MAY_BE_NONE = ("num_segments", "dim_size", "bucket_size")


def test_every_public_function_is_here():
    public = {
        value
        for module in (js.tf, js.mint, js.bnns, js.ops, js.pyg)
        for value in vars(module).values()
        if inspect.isfunction(value) and value.__module__.startswith(module.__name__)
        if not value.__name__.startswith("_")
    }
    assert public == GOOD.keys()


@pytest.mark.parametrize("fun", GOOD, ids=lambda f: f.__name__)
def test_whatever_stands_there_the_error_is_ours(fun):
    fun(**GOOD[fun])
    for odd_name, odd in ODD.items():
        for name in GOOD[fun] | OPTIONS:
            if odd is None and name in (*OPTIONS, *MAY_BE_NONE):
                continue
            try:
                fun(**(GOOD[fun] | {name: odd}))
            except (TypeError, ValueError, NotImplementedError) as error:
                ours = f"{fun.__module__.split('.')[1]}.{fun.__name__}: "
                assert str(error).startswith(ours), (odd_name, name, error)
            else:
                # an empty list or a str may be right somewhere, never in these
                assert name in ("out_sharding", "shape"), (odd_name, name)


def test_order_is_kind_rank_dim_sizes_dtype():
    """One thing wrong less at a time."""
    f = js.mint.scatter_add
    bad = dict(input="x", dim=7, index=np.zeros((3, 1, 1), F), src=np.zeros((1, 1), I))
    for change, text in (
        ({}, "input"),
        ({"input": np.zeros((2, 2), F)}, "same rank"),
        ({"index": np.zeros((3, 3), F)}, "`dim` must be in"),
        ({"dim": 1}, r"index.shape\[0\]"),
        ({"src": np.zeros((3, 3), I), "input": np.zeros((3, 2), F)}, "int32 or int64"),
        ({"index": np.zeros((3, 3), I)}, "dtype of `input`"),
    ):
        bad |= change
        with pytest.raises((TypeError, ValueError), match=text):
            f(**bad)


def test_traced_where_static_is_needed():
    ids, data = np.zeros(2, I), np.zeros(2, F)
    with pytest.raises(
        ValueError, match="ops.segment_sum: `num_segments` must be given"
    ):
        jax.jit(lambda i: js.ops.segment_sum(data, i))(ids)
    with pytest.raises(TypeError, match="`num_segments` must be static"):
        jax.jit(lambda n: js.ops.segment_sum(data, ids, n))(2)
    with pytest.raises(
        TypeError, match=r"`shape` must be static; got shape int32\[1\]"
    ):
        jax.jit(lambda s: js.tf.scatter_nd([[0]], [1.0], s))(np.array([2], I))
    with pytest.raises(TypeError, match="`dim` must be static"):
        jax.jit(lambda d: js.mint.gather(data, d, ids))(0)
    with pytest.raises(TypeError, match="`unique_indices` must be True or False"):
        jax.jit(lambda b: js.ops.take(data, ids, unique_indices=b))(True)


def test_more_rows_than_int32_can_name():
    rows = jax.ShapeDtypeStruct((2**31, 1), np.int8)
    ids = jax.ShapeDtypeStruct((2,), np.int32)
    if jax.config.jax_enable_x64:
        assert jax.eval_shape(js.ops.take, rows, ids).shape == (2, 1)
    else:
        with pytest.raises(ValueError, match=r"more rows than int32 .* enable x64"):
            jax.eval_shape(js.ops.take, rows, ids)
        with pytest.raises(ValueError, match="enable x64"):
            data = jax.ShapeDtypeStruct((2,), np.int8)
            jax.eval_shape(lambda d, i: js.ops.segment_sum(d, i, 2**31), data, ids)


def test_errors_do_not_rely_on_chex():
    chex.disable_asserts()
    try:
        with pytest.raises(ValueError, match="prefix"):
            js.ops.segment_sum(np.zeros((7, 2), F), np.zeros(2, I), 3)
    finally:
        chex.enable_asserts()


def test_forced_kernel_that_is_not_there():
    x, i, u = np.zeros(3, F), np.zeros(2, I), np.ones(2, F)
    text = (
        "mint.index_add: no Pallas kernel for this scatter_add on cpu: no kernel is"
        " written for cpu; use implementation=None or 'xla'."
    )
    with pytest.raises(NotImplementedError) as caught:
        js.mint.index_add(x, 0, i, u, implementation="pallas")
    assert str(caught.value) == text
    with pytest.raises(NotImplementedError, match="ops.segment_max: no Pallas kernel"):
        js.ops.segment_max(u, i, 3, implementation="pallas")
    # Of a gather it binds the scatter in the gradient.
    take = lambda t: js.ops.take(t, i, implementation="pallas")
    take(x)
    with pytest.raises(NotImplementedError, match="ops.take: no Pallas kernel"):
        jax.grad(lambda t: take(t).sum())(x)
    # ... and the transpose of a forced scatter is not forced, on any platform.
    add = lambda u: js.mint.index_add(x, 0, i, u, implementation="pallas")
    transpose = jax.jit(lambda ct: jax.linear_transpose(add, u)(ct)[0])
    transpose.trace(x).lower(lowering_platforms=("rocm",))
    transpose(x)
    with pytest.raises(NotImplementedError, match="on rocm"):
        jax.jit(add).trace(u).lower(lowering_platforms=("rocm",))
