"""Run a model in the runtimes people really use, and say what happened.

An edit of a model is right when the runtimes cannot tell it from the original: it loads and runs exactly when
the original did, with bit-equal outputs, and fails with the same words when the original failed.
"""

from tests.kit.oracles.outcome import Outcome, Value, same_behavior
from tests.kit.oracles.pool import OracleError, Pool, is_deterministic, run_litert, run_onert

__all__ = ["OracleError", "Outcome", "Pool", "Value", "is_deterministic", "run_litert", "run_onert", "same_behavior"]
