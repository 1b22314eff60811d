"""The main job: shows within a minute that jscatter works on this machine."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence

import jax
import jaxlib
import numpy as np

import jscatter as js
from jscatter._commands import graph_network, here, seeds, workloads
from jscatter._commands.report import Report

_DESCRIPTION = """\
Shows within a minute that jscatter works on this machine:

  1. the versions, the devices, and which implementation each scatter gets
  2. every example of the documents that the spellings come from
  3. a graph network trained on Zachary's karate club, compared with plain JAX
  4. three hot workloads, timed against plain JAX

Exit status: 0 when every check holds, 1 when one does not; times are no checks.
"""

_NEXT = """
Next:
  python -c 'import jscatter as js; print(js.tf.scatter_nd([[4], [3]], [9, 10], 8))'
  python -c 'import jscatter; help(jscatter.mint.scatter_add)'
  python -m jscatter"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the parts; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m jscatter",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="parts 1 and 2 only")
    quick = parser.parse_args(argv).quick
    with Report(steps=2 if quick else 7) as report:
        versions = (("jax", jax), ("jaxlib", jaxlib), ("numpy", np))
        report.line(
            f"jscatter {js.__version__} with "
            + ", ".join(f"{name} {module.__version__}" for name, module in versions)
            + f", Python {platform.python_version()}"
        )
        for part in (here, seeds) if quick else (here, seeds, graph_network, workloads):
            part.run(report)
        report.summary()
        report.line(_NEXT if quick else f"{_NEXT} --quick")
    return 1 if report.failed else 0
