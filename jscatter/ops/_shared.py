"""What all segment functions of this spelling share: the tail of their arguments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jscatter import _arguments, _call, _validate
from jscatter._call import Call, Options


def segments(
    name,
    op,
    data,
    segment_ids,
    num_segments,
    indices_are_sorted,
    unique_indices,
    bucket_size,
    mode,
    out_sharding,
    options,
    **params,
):
    """A call of `ops.<name>`; params are the op's own."""
    function = f"ops.{name}"
    if bucket_size is not None:
        _validate.not_yet(function, "`bucket_size`", bucket_size)
    given: Options = {**options}
    if mode is not None:
        given["mode"] = mode
    if indices_are_sorted is not False:
        given["indices_are_sorted"] = indices_are_sorted
    if unique_indices is not False:
        given["unique_indices"] = unique_indices
    if out_sharding is not None:
        given["out_sharding"] = out_sharding
    if num_segments is None:
        num_segments = _highest_id(function, segment_ids) + 1
    elif type(num_segments) is not int or num_segments < 0:
        num_segments = _validate.size(function, "num_segments", num_segments)
    names = ("num_segments", "segment_ids", "data")
    call = Call(
        function,
        names,
        "segments",
        op,
        shape=(num_segments,),
        lists=False,
        params=tuple(params.items()),
    )
    return _call.run(call, None, segment_ids, data, given=given)


def _highest_id(function, segment_ids) -> int:
    if isinstance(segment_ids, jax.core.Tracer):
        rule = (
            "`num_segments` must be given where `segment_ids` is traced (jit, vmap ...)"
        )
        _validate.fail(ValueError, function, rule, segment_ids=segment_ids)
    ids = _arguments.indices(function, "segment_ids", segment_ids, lists=False)
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        rule = "`segment_ids` must have an integer dtype"
        _validate.fail(TypeError, function, rule, segment_ids=segment_ids)
    return max(int(np.asarray(ids).max()), -1) if ids.size else -1
