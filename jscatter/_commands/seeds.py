"""Part 2: every example of the four documents that the spellings come from.

BNNSScatterND (Apple, Accelerate), tf.scatter_nd (TensorFlow 1 and 2.13) and
mindspore.mint.scatter_add: their calls, the results that they print, and what they say
in words and can be checked.
"""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

import numpy as np

import jscatter as js

DOCUMENTS = ("Apple BNNS", "TensorFlow 1", "TensorFlow 2.13", "MindSpore mint")
APPLE, TF1, TF2, MINDSPORE = DOCUMENTS


class Example(NamedTuple):
    """A call of a document and the result that it prints."""

    document: str
    function: str
    args: tuple
    expected: np.ndarray

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(_text, self.args))})"


def _float(x):
    return np.array(x, np.float32)


def _int(x):
    return np.array(x, np.int32)


def _int64(x):
    return np.array(x, np.int64)


# The documents' own values, with the dtypes that they give.
_ZEROS_322, _ZEROS_55 = np.zeros((3, 2, 2), np.float32), np.zeros((5, 5), np.float32)
_SRC = _float([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
_MATRIX = [[5, 5, 5, 5], [6, 6, 6, 6], [7, 7, 7, 7], [8, 8, 8, 8]]
_EMPTY = [[0, 0, 0, 0]] * 4
_TF_ELEMENTS = (_int([[4], [3], [1], [7]]), _int([9, 10, 11, 12]), [8])
_TF_ELEMENTS_RESULT = _int([0, 11, 0, 10, 9, 0, 0, 12])
_TF_SLICES = _int([_MATRIX, _MATRIX])

EXAMPLES = (
    Example(
        APPLE,
        "bnns.scatter_nd",
        ("none", _float([[20, 21], [22, 23]]), _int([1]), _ZEROS_322),
        _float([[[0, 0], [0, 0]], [[20, 21], [22, 23]], [[0, 0], [0, 0]]]),
    ),
    Example(
        APPLE,
        "bnns.scatter_nd",
        ("none", _float([[20, 21]]), _int([[1, 0]]), _ZEROS_322),
        _float([[[0, 0], [0, 0]], [[20, 21], [0, 0]], [[0, 0], [0, 0]]]),
    ),
    Example(
        APPLE,
        "bnns.scatter_nd",
        ("none", _float([[23]]), _int([[[1, 1, 1]]]), _ZEROS_322),
        _float([[[0, 0], [0, 0]], [[0, 0], [0, 23]], [[0, 0], [0, 0]]]),
    ),
    Example(TF1, "tf.scatter_nd", _TF_ELEMENTS, _TF_ELEMENTS_RESULT),
    Example(
        TF1,
        "tf.scatter_nd",
        (_int([[0], [2]]), _TF_SLICES, [4, 4, 4]),
        _int([_MATRIX, _EMPTY, _MATRIX, _EMPTY]),
    ),
    Example(TF2, "tf.scatter_nd", _TF_ELEMENTS, _TF_ELEMENTS_RESULT),
    Example(
        TF2,
        "tf.scatter_nd",
        (_int([[1], [3]]), _TF_SLICES, [4, 4, 4]),
        _int([_EMPTY, _MATRIX, _EMPTY, _MATRIX]),
    ),
    Example(
        MINDSPORE,
        "mint.scatter_add",
        (_float([[1, 2, 3, 4, 5]]), 1, _int64([[2, 4]]), _float([[8, 8]])),
        _float([[1, 2, 11, 4, 13]]),
    ),
    Example(
        MINDSPORE,
        "mint.scatter_add",
        (_ZEROS_55, 0, _int64([[0, 0, 0], [2, 2, 2], [4, 4, 4]]), _SRC),
        _float(
            [
                [1, 2, 3, 0, 0],
                [0, 0, 0, 0, 0],
                [4, 5, 6, 0, 0],
                [0, 0, 0, 0, 0],
                [7, 8, 9, 0, 0],
            ]
        ),
    ),
    Example(
        MINDSPORE,
        "mint.scatter_add",
        (_ZEROS_55, 1, _int64([[0, 2, 4], [0, 2, 4], [0, 2, 4]]), _SRC),
        _float(
            [
                [1, 0, 2, 0, 3],
                [4, 0, 5, 0, 6],
                [7, 0, 8, 0, 9],
                [0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0],
            ]
        ),
    ),
)


def run(report) -> None:
    """Runs the examples and what the documents say in words, and compares exactly."""
    report.heading("The examples of the documents that the spellings come from")
    report.step("running the documents' examples")
    cases = [
        (e.document, str(e), operator.attrgetter(e.function)(js)(*e.args), e.expected)
        for e in EXAMPLES
    ]
    rows = []
    cases = sorted([*cases, *_prose()], key=lambda case: DOCUMENTS.index(case[0]))
    for document, call, out, expected in cases:
        holds = out.dtype == expected.dtype and np.array_equal(out, expected)
        word = report.check(f"{document}: {call}", holds)
        rows.append((document, call, _text(out), word))
    report.table(("document", "call", "output", "check"), rows)


def _prose():
    """What the documents say in words: (document, statement, left side, right side)."""
    i, v, s = _TF_ELEMENTS
    out, zeros = js.tf.scatter_nd(i, v, s), np.zeros(s, v.dtype)
    added = js.tf.tensor_scatter_add(zeros, i, v)
    yield TF1, "scatter_nd(i, v, s) == tensor_scatter_add(zeros(s), i, v)", out, added
    added = js.tf.tensor_scatter_nd_add(zeros, i, v)
    yield (
        TF2,
        "scatter_nd(i, v, s) == tensor_scatter_nd_add(zeros(s), i, v)",
        out,
        added,
    )
    for document in (TF1, TF2):
        gathered = js.tf.gather_nd(out, i)
        yield (
            document,
            "gather_nd(scatter_nd(i, v, s), i) == v, distinct i",
            gathered,
            v,
        )
        summed = js.tf.scatter_nd(_int([[1], [1], [3]]), _int([1, 2, 4]), [4])
        yield document, "duplicates are summed", summed, _int([0, 3, 0, 4])
        inside = js.tf.scatter_nd(_int([[1], [9], [3]]), _int([1, 2, 4]), [4])
        yield document, "an index out of bounds is ignored", inside, _int([0, 1, 0, 4])
    for example in EXAMPLES:
        if example.document == APPLE:
            op, x, i, out = example.args
            gathered = js.bnns.gather_nd(js.bnns.scatter_nd(op, x, i, out), i)
            yield APPLE, f"gather_nd undoes scatter_nd, i = {_text(i)}", gathered, x
    rng = np.random.default_rng(0)
    x, src = _float(rng.integers(1, 9, (2, 2, 2, 2)))
    index = _int64(rng.integers(0, 2, (2, 2, 2)))
    for dim in range(3):
        at = ["[i]", "[j]", "[k]"]
        at[dim] = "[index[i][j][k]]"
        expected = x.copy()
        for place in np.ndindex(index.shape):
            target = (*place[:dim], index[place], *place[dim + 1 :])
            expected[target] += src[place]
        rule = f"dim {dim}: input{''.join(at)} += src[i][j][k]"
        yield MINDSPORE, rule, js.mint.scatter_add(x, dim, index, src), expected


def _text(value) -> str:
    if isinstance(value, str | int):
        return repr(value)
    array = np.asarray(value)
    text = f"zeros{array.shape}" if not array.any() else str(array.tolist())
    # Tables break lines at spaces: only between rows.
    return re.sub(r", (?!\[)", ",", re.sub(r"\.0\b", ".", text))
