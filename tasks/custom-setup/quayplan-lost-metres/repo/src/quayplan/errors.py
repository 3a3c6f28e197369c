"""What can go wrong."""


class QuayError(ValueError):
    """Something that a quay refuses."""


class NoRoom(QuayError):
    """There is no gap that is long enough, or not at that place."""


class UnknownShip(QuayError):
    """The ship is not there."""
