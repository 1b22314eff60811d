"""Pallas kernels. None is written yet: `jscatter._select` answers "xla" everywhere."""
