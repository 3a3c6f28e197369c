"""Why there is no resource."""


class PoolError(Exception):
    """Any error of this package."""


class PoolTimeout(PoolError):
    """It took too long."""


class PoolClosed(PoolError):
    """The pool was closed."""
