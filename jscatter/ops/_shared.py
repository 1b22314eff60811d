"""What all segment functions of this spelling share: the tail of their arguments."""

from __future__ import annotations

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
    *,
    constant=...,
    **params,
):
    """A call of `ops.<name>`; params are the op's own, but `constant` is an array."""
    function = f"ops.{name}"
    if constant is None:
        rule = "`constant` must be a number"
        _validate.fail(TypeError, function, rule, constant=constant)
    if type(constant) is int and constant == 0:  # most calls; also of bools
        params["constant"] = 0
    scalar = None if constant is ... or "constant" in params else constant
    if bucket_size is not None:
        bucket_size = _validate.positive_integer(function, "bucket_size", bucket_size)
        params["bucket_size"] = bucket_size
    given: Options = {**options}
    if mode is not None:
        given["mode"] = mode
    if indices_are_sorted is not False:
        given["indices_are_sorted"] = indices_are_sorted
    if unique_indices is not False:
        given["unique_indices"] = unique_indices
    if out_sharding is not None:
        given["out_sharding"] = out_sharding
    ids = "segment_ids"
    size = _arguments.size(
        function, "num_segments", num_segments, ids, segment_ids, lists=False
    )
    names = ("num_segments", "segment_ids", "data")
    call = Call(
        function,
        names,
        "segments",
        op,
        shape=(size,),
        lists=False,
        scalar="constant",
        params=tuple(params.items()),
    )
    return _call.run(call, None, segment_ids, data, scalar=scalar, given=given)
