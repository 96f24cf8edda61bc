"""onert's C interface; see circletools.split.onert_c."""

from circletools.split.onert_c import Session, StatusError, TensorInfo

__all__ = ["Session", "StatusError", "TensorInfo"]
