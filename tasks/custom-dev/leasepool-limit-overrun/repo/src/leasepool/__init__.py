"""Share a few expensive resources between threads."""

from leasepool.errors import PoolClosed, PoolError, PoolTimeout
from leasepool.pool import Pool

__all__ = ["Pool", "PoolClosed", "PoolError", "PoolTimeout"]
