"""Part 1: the devices that are here, and which implementation each scatter gets."""

from __future__ import annotations

import itertools
import re

import jax
import jax.numpy as jnp

import jscatter as js

# As `jscatter._select.scope` writes it.
_SCOPE = re.compile(r'jscatter\[(\S+): (\S+) (.+?) (\S+), (.+?)\](?=[/"])')


def run(report) -> None:
    """Prints the devices, and the choices as the lowered programs name them."""
    report.heading("What runs here")
    report.step("lowering for this device and for others")
    devices = jax.devices()
    kinds = ", ".join(sorted({d.device_kind for d in devices}))
    here = devices[0].platform
    report.line(f"devices: {len(devices)} {here} ({kinds})")
    others = [p for p in ("cpu", "cuda", "tpu") if p != {"gpu": "cuda"}.get(here, here)]
    platforms = {f"{here} (here)": None, **{p: (p,) for p in others}}
    calls = _calls()
    rows = [
        (label, *choice)
        for call in calls.values()
        for label, platform in platforms.items()
        for choice in _choices(call, platform)
    ]
    report.table(("platform", "function", "primitive", "form", "runs", "why"), rows)
    told = {row[:2] for row in rows}
    name = "every program says which implementation it got"
    report.check_line(name, told == set(itertools.product(platforms, calls)))


def _calls():
    x, index = jnp.zeros((2, 8)), jnp.zeros((2, 8), int)
    return {
        "ops.segment_sum": lambda: js.ops.segment_sum(x, jnp.arange(2), 4),
        "mint.scatter_add": lambda: js.mint.scatter_add(x, 1, index, x),
        "mint.gather": lambda: js.mint.gather(x, 1, index),
    }


def _choices(call, platforms) -> list[tuple[str, ...]]:
    """(function, primitive, form, implementation, reason) of each scatter of `call`."""
    lowered = jax.jit(call).trace().lower(lowering_platforms=platforms)
    return sorted(set(_SCOPE.findall(lowered.as_text(debug_info=True))))
