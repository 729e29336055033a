"""Which failures are tried again: only those that another try can fix.
Not here: the errors (`strata.errors`), how often (the DAGs' default arguments)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.airflow.older import AirflowException, RetryDecision, RetryPolicy
from strata_cdc.errors import Transient

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

SPARK_REFUSED = 65
"""Exit code of a Spark job that a retry cannot fix (`EX_DATAERR` of sysexits.h); spark-submit passes it on."""


class RetryTransient(RetryPolicy):
    """Fails at once if another try cannot help; leaves everything else to the task's number of retries."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002  the signature is Airflow's
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        """Decides by the kind of error; for a Spark job, only the exit code is known here.

        An error that is not Strata's, the system's or Airflow's is a mistake in the code: another try cannot help.
        """
        text = str(exception)
        if isinstance(exception, Transient | OSError):
            return RetryDecision.default()
        if isinstance(exception, AirflowException) and f"Error code is: {SPARK_REFUSED}." not in text:
            return RetryDecision.default()
        return RetryDecision.fail(reason="a retry would end the same way")

    def serialize(self) -> dict[str, Any]:
        """Empty: the policy has no settings."""
        return {}
