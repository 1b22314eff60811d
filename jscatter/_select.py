"""Which implementation a scatter gets, and why: one function, one table.

Called while lowering, so it sees shapes, dtypes and the platform, never values. It must
answer on hosts that have no such device: `device_kind` is None wherever the target
device is not at hand (`jax.export`, `lower(lowering_platforms=...)`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from jscatter import _scatter


class Kernel(NamedTuple):
    """A row of the table.

    Attributes:
      name: what `explain` and scope names show.
      run: `(*arrays, **params) -> array`, params as the primitive has them.
      supports: `(*avals, **params) -> str | None`: the reason why not. Static facts
        only.
      measured: the device kinds on which it was measured to be right and faster than
        XLA.
    """

    name: str
    run: Callable
    supports: Callable
    measured: frozenset[str] = frozenset()


class Choice(NamedTuple):
    """`kernel` None: the XLA form."""

    name: str
    reason: str
    kernel: Callable | None = None


# (primitive, platform) -> kernels, in order of preference.
KERNELS: dict[tuple[str, str], tuple[Kernel, ...]] = {}


def select(
    primitive: str,
    platform: str,
    avals,
    params,
    *,
    device_kind: str | None,
    local: bool,
) -> Choice:
    """The implementation of one primitive of one program.

    Args:
      primitive: "scatter_add" or "gather".
      platform: the platform that is lowered for, such as "cpu" or "cuda".
      avals: the abstract values of the arrays.
      params: the primitive's static parameters.
      device_kind: the kind of the device that will run it, None where it is unknown.
      local: whether the arrays are on one device (or on this one's part of a fully
        manual mesh). Elsewhere an opaque kernel would make the compiler gather its
        arguments.

    Raises:
      NotImplementedError: "pallas" was asked for and no kernel can do it.
    """
    options = params["options"]
    if primitive == "gather":  # `implementation` binds the scatter in its transpose
        return Choice("xla", "gathers are the compiler's on every platform")
    if options.implementation == "xla":
        return Choice("xla", "asked for")
    reasons = []
    for kernel in KERNELS.get((primitive, platform), ()):
        reason = kernel.supports(*avals, **params)
        if reason is None and not local:
            reason = "the arrays are spread over devices by the compiler"
        if reason is None and options.implementation == "pallas":
            return Choice(kernel.name, "asked for", kernel.run)
        if reason is None and device_kind in kernel.measured:
            return Choice(kernel.name, f"measured on {device_kind}", kernel.run)
        unmeasured = f"{kernel.name} was not measured on {device_kind or platform}"
        reasons.append(reason or unmeasured)
    reason = ", ".join(reasons) or f"no kernel is written for {platform}"
    if options.implementation == "pallas":
        raise _unavailable(options.function, primitive, platform, reason)
    return Choice("xla", reason)


def while_tracing(op: str, options) -> Choice:
    """The implementation of set, multiply, min or max.

    These are lax's own operations, chosen before the platform is known.
    """
    reason = f"no kernel is written for {op}"
    if options.implementation == "pallas":
        raise _unavailable(options.function, op, "any platform", reason)
    return Choice("xla", "asked for" if options.implementation else reason)


def _unavailable(function, op, platform, reason):
    return NotImplementedError(
        f"{function}: no Pallas kernel for this {op} on {platform}: {reason};"
        " use implementation=None or 'xla'."
    )


_SCOPE = re.compile(
    r"jscatter\[(?P<function>[^:\]]+): (?P<op>\S+) (?P<form>rows|batched|\d+-d points)"
    r" (?P<choice>[^,\]]+), (?P<reason>[^\]]*)\]"
)


def read_scope(path: str) -> dict | None:
    """What `scope` wrote, out of a stack of names: the innermost, and its span."""
    spans = lambda m: {"start": m.start(), "end": m.end()}
    found = [m.groupdict() | spans(m) for m in _SCOPE.finditer(path)]
    return found[-1] if found else None


def scope(function: str, op: str, dnums, choice: Choice) -> str:
    """The scope that profiles and the lowered text show: form, choice and reason."""
    form = _scatter.kind(dnums)
    reason = choice.reason.replace("[", "(").replace("]", ")")  # for `read_scope`
    return f"jscatter[{function}: {op} {form} {choice.name}, {reason}]"
