"""Which implementation each scatter and gather of a program gets, and why.

Read off the lowered program, where each of ours stands under a scope that says so: the
answer cannot disagree with what runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from jscatter import _select, _validate

_PLATFORMS = (None, "cpu", "gpu", "cuda", "rocm", "tpu")
_OPERATIONS = [
    f"stablehlo.{name}"
    for name in ("scatter", "gather", "dynamic_gather", "select_and_scatter")
]
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAME = re.compile(r'\("([^"]+)":(\d+):\d+')
_TYPE = re.compile(r"tensor<((?:[\d?]+x)*)(complex<\w+>|\w+)")
_CALL = "stablehlo.custom_call"
_NOT_OURS = "not jscatter's"


class Row(NamedTuple):
    """One scatter or gather of a program.

    Attributes:
      where: the line that called it, "file.py:12"; "" where the program does not say.
      function: the jscatter function, "ops.segment_sum"; "" for one that is not ours.
      operation: "scatter_add", "gather", "max" ...
      form: "rows", "batched", "2-d points"; "" for one that is not ours.
      shapes: "f32[4,3] <- f32[6,3]": the operand and the updates, or what is gathered.
      implementation: "xla", or the name of a kernel.
      reason: why.
      path: the transformations and loops that it stands in, as profiles show them.
    """

    where: str
    function: str
    operation: str
    form: str
    shapes: str
    implementation: str
    reason: str
    path: str


class Explanation(NamedTuple):
    """What `explain` found; prints as a table."""

    platform: str
    rows: tuple[Row, ...]

    def __str__(self):
        ours = sum(bool(row.function) for row in self.rows)
        head = f"On {self.platform}: {len(self.rows)} scatters and gathers,"
        head += f" {ours} of them jscatter's."
        titles = ("line", "function", "operation", "shapes", "runs", "why", "within")
        cells = [
            (
                row.where,
                row.function or "-",
                f"{row.operation} {row.form}".strip(),
                row.shapes,
                row.implementation,
                row.reason,
                row.path,
            )
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(titles, *cells)]
        line = lambda row: "  ".join(map(str.ljust, row, widths)).rstrip()
        return "\n".join([head, *map(line, [titles, *cells])]) if cells else head

    __repr__ = __str__


def explain(fun, *args, platform: str | None = None) -> Explanation:
    """Every scatter and gather in `fun`: what runs it on a platform, and why.

    The program is traced and lowered, not run; loops, branches, jitted functions and
    derivatives are looked into. What is not jscatter's is listed too. One in a loop, or
    in a jitted function that is called twice, stands there once.

    Args:
      fun: a function of `args`; jitted or not.
      *args: arrays, or `jax.ShapeDtypeStruct` for what is not at hand.
      platform: "cpu", "cuda" ("gpu"), "rocm" or "tpu", whether such a device is there
        or not; None: the default one. Of a device that is not there the kind is
        unknown, and what depends on a measurement is left to XLA.

    Returns:
      An `Explanation`: `rows`, and a table when it is printed.

    Raises:
      TypeError: `fun` is not callable.
      ValueError: an unknown `platform`.
      NotImplementedError: a function in it asks for a kernel that is not there.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> f = lambda x, ids: js.ops.segment_sum(x, ids, 3) + x[:3]
    >>> ids = jnp.array([0, 2, 0, 1])
    >>> found = js.explain(f, jnp.ones((4, 2)), ids, platform="tpu")
    >>> [(row.function, row.operation, row.shapes) for row in found.rows]
    [('ops.segment_sum', 'scatter_add', 'f32[3,2] <- f32[4,2]')]
    """
    if not callable(fun):
        _validate.fail(TypeError, "explain", "`fun` must be callable", fun=fun)
    platform = _validate.one_of("explain", "platform", platform, _PLATFORMS)
    platform = "cuda" if platform == "gpu" else platform
    jitted: Any = fun if type(fun) is type(jax.jit(abs)) else jax.jit(fun)
    chosen = {} if platform is None else {"lowering_platforms": (platform,)}
    lowered = jitted.trace(*args).lower(**chosen)
    module = lowered.compiler_ir("stablehlo").operation
    found = list(_found(module))
    # A kernel is a custom call, and what else it lowers to a part of it; one without a
    # custom call (an interpreted one) is known by the first of its operations.
    calls = {kernel for kernel, name, _ in found if name == _CALL}
    first: dict[str, int] = {}
    rows = []
    for k, (kernel, name, row) in enumerate(found):
        known_by = (
            name == _CALL if kernel in calls else first.setdefault(kernel, k) == k
        )
        if not kernel or known_by:
            rows.append(row)
    return Explanation(platform or jax.default_backend(), tuple(rows))


def _found(op: Any) -> Iterator[tuple[str, str, Row]]:
    """(a kernel's scope or "", name, row) of scatters, gathers, kernels' operations."""
    name = op.operation.name
    path, frames = _split(str(op.location))
    scope = _select.read_scope(path)
    kernel = scope is not None and scope["choice"] != "xla"
    if (name in _OPERATIONS or kernel) and len(op.results):
        row = _row(op, name, path, frames, scope)
        yield path[: scope["end"]] if scope and kernel else "", name, row
    for region in op.regions:
        for block in region:
            for child in block:
                yield from _found(child)


def _row(op, name, path, frames, scope) -> Row:
    where = _caller(frames)
    if scope is None:
        path, operation = path.rpartition("/")[::2]
        operation = operation or name.removeprefix("stablehlo.")
        return Row(
            where, "", operation, "", _shapes(op, name), "xla", _NOT_OURS, _under(path)
        )
    return Row(
        where,
        scope["function"],
        scope["op"],
        scope["form"],
        _shapes(op, name),
        scope["choice"],
        scope["reason"],
        _under(path[: scope["start"]]),
    )


def _split(location: str):
    """The name stack, and the (file, line) of the frames, innermost first."""
    name = re.match(r'loc\("((?:[^"\\]|\\.)*)"\(', location)
    rest = location[name.end() :] if name else location
    return name[1] if name else "", _FRAME.findall(rest)


def _caller(frames) -> str:
    """The first line outside this package, counted from the last one inside it.

    A traced function that is met again keeps the frames of the first time, innermost.
    """
    files = [file for file, _ in frames]
    frames = frames[: files.index(__file__)] if __file__ in files else frames
    inside = [k for k, (file, _) in enumerate(frames) if file.startswith(_OURS)]
    after = frames[inside[-1] + 1 :] if inside else frames
    return f"{os.path.basename(after[0][0])}:{after[0][1]}" if after else ""


def _under(path: str) -> str:
    """Without the outermost jit, which is `explain`'s own or the function's."""
    return re.sub(r"^jit\([^()]*\)/?", "", path).strip("/")


def _shapes(op, name) -> str:
    operands, result = [_type(o.type) for o in op.operands], _type(op.results[0].type)
    if name not in _OPERATIONS:
        return f"{', '.join(operands)} -> {result}"
    if name == "stablehlo.scatter":
        return f"{operands[0]} <- {operands[2]}"
    return f"{operands[0]} -> {result}"


def _type(t) -> str:
    found = _TYPE.match(str(t))
    return f"{found[2]}[{','.join(found[1].split('x')[:-1])}]" if found else str(t)
