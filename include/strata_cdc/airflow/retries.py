"""Which failures are tried again: only those that another try can fix.
Not here: the errors (`errors.py`), how often (the DAGs' default arguments)."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from strata_cdc.airflow.older import IS_OLDER, AirflowException, AirflowFailException, RetryDecision, RetryPolicy
from strata_cdc.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk.definitions.context import Context

SPARK_REFUSED = 65
"""Exit code of a Spark job that a retry cannot fix (`EX_DATAERR` of sysexits.h); spark-submit passes it on."""

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class RetryTransient(RetryPolicy):
    """Fails at once if another try cannot help; leaves everything else to the task's number of retries."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002  the signature is Airflow's
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        """Decides by the kind of error."""
        if _may_pass(exception):
            return RetryDecision.default()
        return RetryDecision.fail(reason="a retry would end the same way")

    def serialize(self) -> dict[str, Any]:
        """Empty: the policy has no settings."""
        return {}


def failing_at_once(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The work of a task, for an Airflow without retry policies: an error that another try cannot fix becomes the cause
    of Airflow's own for that.

    Args:
        function: The work.
    """

    @wraps(function)
    def work(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        try:
            return function(*given, **named)
        except Exception as error:
            if _may_pass(error):
                raise
            raise AirflowFailException("a retry would end the same way") from error

    return work


def deciding(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The work of a task, which itself decides about retries where Airflow has no policies for them."""
    return failing_at_once(function) if IS_OLDER else function


def _may_pass(error: BaseException) -> bool:
    """Whether another try may fix an error; for a Spark job, only the exit code is known here.

    An error that is not Strata's, the system's or Airflow's is a mistake in the code: another try cannot help.
    """
    if isinstance(error, AirflowException):
        return f"Error code is: {SPARK_REFUSED}." not in str(error)
    return isinstance(error, Transient | OSError)
