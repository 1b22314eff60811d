"""JAX's spelling: drop-in for `jax.ops.segment_*`, their statistics, and `take`.

`segment_ids` gives one id per row of `data`. Departures from `jax.ops`: ids of rank
other than 1 mean what TensorFlow says, their shape is a prefix of the data's; bools add
as OR; half precision is summed in float32 and rounded once. An id outside [0,
num_segments), negative ones included, drops its row. Arguments are arrays, not lists,
as in `jax.ops`.
"""

from jscatter.ops._basic import segment_all as segment_all
from jscatter.ops._basic import segment_any as segment_any
from jscatter.ops._basic import segment_count as segment_count
from jscatter.ops._basic import segment_max as segment_max
from jscatter.ops._basic import segment_max_or_constant as segment_max_or_constant
from jscatter.ops._basic import segment_mean as segment_mean
from jscatter.ops._basic import segment_min as segment_min
from jscatter.ops._basic import segment_min_or_constant as segment_min_or_constant
from jscatter.ops._basic import segment_prod as segment_prod
from jscatter.ops._basic import segment_sum as segment_sum
from jscatter.ops._basic import take as take
from jscatter.ops._statistics import segment_argmax as segment_argmax
from jscatter.ops._statistics import segment_argmin as segment_argmin
from jscatter.ops._statistics import segment_log_softmax as segment_log_softmax
from jscatter.ops._statistics import segment_logsumexp as segment_logsumexp
from jscatter.ops._statistics import segment_normalize as segment_normalize
from jscatter.ops._statistics import segment_softmax as segment_softmax
from jscatter.ops._statistics import segment_std as segment_std
from jscatter.ops._statistics import segment_variance as segment_variance
