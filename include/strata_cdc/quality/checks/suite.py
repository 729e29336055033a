"""Runs rules on a Spark DataFrame with Great Expectations, and writes its Data Docs.
Not here: which rules there are (`rules.py`), which frames (`run.py`)."""

from __future__ import annotations

import io
import json
import logging
import tempfile
import time
import warnings
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata_cdc.counted import counted
from strata_cdc.files.storage import Folder
from strata_cdc.quality.checks.data_docs import hide, page_name, show, without_other_hosts
from strata_cdc.quality.checks.profile import EXAMPLES, POSITION, example_text
from strata_cdc.quality.checks.sensitive import MASK, NOTHING, position_of, without_values
from strata_cdc.runs.verdict import Failure, Severity
from strata_cdc.startup.spark_logs import without_spark_logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.quality.checks.judged import JudgedSuite
    from strata_cdc.quality.checks.rules import Rule
    from strata_cdc.quality.checks.sensitive import Sensitive

_QUICKLY = "BOOLEAN_ONLY"
"""All of a suite's columns in one or two Spark jobs; anything more costs a job for each expectation."""
_IN_DETAIL = {"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLES}
_GX_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "warning"}
_QUERY = "unexpected_rows_expectation"
_ROWS = {"partial_unexpected_list", "partial_unexpected_index_list", "details"}
"""What a result has of offending rows; `details` has those of a query."""


class SuiteJudge:
    """Great Expectations in memory: suites are run one after the other, and the Data Docs show them all."""

    def __init__(self, run: str = "checks") -> None:
        """Begins without suites.

        Args:
            run: What the pages call it.
        """
        with _quiet():
            # Takes seconds: who only reads verdicts must not pay.
            import great_expectations as gx
            from great_expectations.core.run_identifier import RunIdentifier
            from great_expectations.data_context.types.base import ProgressBarsConfig

            self._gx = gx
            self._context = gx.get_context(mode="ephemeral")
            self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
            # A page of one without a name would call it `__none__`.
            self._run = RunIdentifier(run_name=page_name(run), run_time=datetime.fromtimestamp(time.time(), UTC))
            self._source: Any = None
            self._sensitive: dict[str, Sensitive] = {}
            """By the name of a suite."""

    def run(
        self,
        name: str,
        table: str,
        frame: Any,
        rules: Sequence[Rule],
        keys: Sequence[str] = (),
        sensitive: Sensitive = NOTHING,
    ) -> list[Failure]:
        """What does not hold, in the order of the rules.

        A first look asks only whether each rule holds, which Spark answers for all of them in a few jobs; what does
        not is looked at again in detail.

        Args:
            name: Of the suite in the Data Docs, where some of its characters may be replaced; unique for this judge.
            table: `database.table`.
            frame: A Spark DataFrame.
            rules: What must hold of it.
            keys: Columns of the frame by which a row is known; examples have them.
            sensitive: What neither failures nor pages may show.
        """
        name = page_name(name)
        if sensitive is not NOTHING:
            self._sensitive[name] = self._sensitive[f"{name}, in detail"] = sensitive
        hidden = nullcontext() if sensitive is NOTHING else without_spark_logs(frame.sparkSession)
        with _quiet(), hidden:
            if self._source is None:
                # Starts Spark if nobody has.
                self._source = self._context.data_sources.add_or_update_spark(name="staged", persist=False)
            batch = self._source.add_dataframe_asset(name=name).add_batch_definition_whole_dataframe("staged")
            failed = self._validate(name, batch, frame, rules, _QUICKLY)
            if not failed:
                return []
            detail = {**_IN_DETAIL, "unexpected_index_column_names": list(dict.fromkeys((*POSITION, *keys)))}
            again = self._validate(f"{name}, in detail", batch, frame, [rules[at] for at in failed], detail)
            by_number = {at: again.get(number, failed[at]) for number, at in enumerate(failed)}
            return [
                self._failure(table, rules[at], result, batch, frame, sensitive) for at, result in by_number.items()
            ]

    def _validate(
        self, name: str, batch: Any, frame: Any, rules: Sequence[Rule], result_format: Any
    ) -> dict[int, dict[str, Any]]:
        """Numbers of the rules that do not hold, with Great Expectations' result of each."""
        sensitive = self._sensitive.get(name, NOTHING)
        expectations = [_expectation(number, rule, sensitive) for number, rule in enumerate(rules)]
        suite = self._context.suites.add(self._gx.ExpectationSuite(name=name, expectations=expectations))
        definition = self._context.validation_definitions.add(
            self._gx.ValidationDefinition(name=name, data=batch, suite=suite)
        )
        outcome = definition.run(batch_parameters={"dataframe": frame}, result_format=result_format, run_id=self._run)
        results: dict[int, dict[str, Any]] = {}
        for result in outcome.results:
            _keep_decimals(result.result)
            answer: dict[str, Any] = dict(result.to_json_dict())
            if result.expectation_config is not None:
                results[result.expectation_config.meta["strata_rule"]] = answer
        # A missing result is no success: nothing else shows that its expectation was checked.
        missing = {"exception_info": {"exception_message": "Great Expectations gave no result"}}
        return {
            number: results.get(number, missing)
            for number in range(len(rules))
            if not results.get(number, {}).get("success")
        }

    def record(self, judged: JudgedSuite) -> None:
        """Takes the results of a suite that was judged without it, for the Data Docs."""
        with _quiet():
            from great_expectations import core
            from great_expectations.data_context.types.resource_identifiers import (
                ExpectationSuiteIdentifier,
                ValidationResultIdentifier,
            )

            name = page_name(judged.name)
            expectations = [_expectation(number, rule.rule) for number, rule in enumerate(judged.rules)]
            suite = self._context.suites.add(self._gx.ExpectationSuite(name=name, expectations=expectations))
            # Great Expectations may bring the rules into another order.
            results = [
                core.ExpectationValidationResult(
                    success=rule.success,
                    expectation_config=expectation,
                    result=rule.details(),
                    exception_info={"raised_exception": False, "exception_message": None, "exception_traceback": None},
                    meta={},
                )
                for expectation in suite.expectation_configurations
                for rule in [judged.rules[expectation.meta["strata_rule"]]]
            ]
            good = sum(rule.success for rule in judged.rules)
            validation = core.ExpectationSuiteValidationResult(
                success=good == len(results),
                results=results,
                suite_name=name,
                statistics={
                    "evaluated_expectations": len(results),
                    "successful_expectations": good,
                    "unsuccessful_expectations": len(results) - good,
                    "success_percent": 100 * good / len(results) if results else None,
                },
                meta={
                    "great_expectations_version": self._gx.__version__,
                    "run_id": self._run,
                    "validation_time": self._run.run_time,
                    # Where the pages look for what was judged.
                    "active_batch_definition": {"data_asset_name": name},
                    "batch_spec": {"data_asset_name": name},
                },
                batch_id=name,
            )
            suite_id = ExpectationSuiteIdentifier(name=name)
            self._context.validation_results_store.store_validation_results(
                suite_validation_result=validation,
                suite_validation_result_identifier=ValidationResultIdentifier(
                    batch_identifier=name, expectation_suite_identifier=suite_id, run_id=self._run
                ),
                expectation_suite_identifier=suite_id,
            )

    def _failure(
        self, table: str, rule: Rule, result: dict[str, Any], batch: Any, frame: Any, sensitive: Sensitive
    ) -> Failure:
        raised = _exception(result)
        details = result.get("result") or {}
        examples = details.get("partial_unexpected_index_list") or details.get("partial_unexpected_list") or []
        count = details.get("unexpected_count")
        if rule.expectation == _QUERY and not raised:
            count = details.get("observed_value")
            examples = self._rows_of_query(rule, batch, frame)
        if raised is not None:
            raised = sensitive.error(raised)
        if sensitive.hides(rule):
            # Of a query it is a number of rows.
            kept = {"observed_value": details["observed_value"]} if rule.expectation == _QUERY and not raised else {}
            details, examples = {**without_values(details), **kept}, [position_of(example) for example in examples]
        else:
            examples = [sensitive.shown(example) if isinstance(example, dict) else example for example in examples]
        return Failure(
            table=table,
            check=rule.expectation,
            column=rule.column,
            severity=rule.severity,
            message=message_of(rule, raised, details),
            unexpected_rows=count if isinstance(count, int) else None,
            examples=tuple(example_text(example) for example in examples[:EXAMPLES]),
            observed=None if raised is not None else observed_of(details),
        )

    def _rows_of_query(self, rule: Rule, batch: Any, frame: Any) -> list[Any]:
        """Only the format that returns everything has the rows of a query; Great Expectations limits them to 200."""
        expectation = self._gx.ExpectationSuite(name="one", expectations=[_expectation(0, rule)]).expectations[0]
        answer = batch.get_batch(batch_parameters={"dataframe": frame}).validate(expectation, result_format="COMPLETE")
        _keep_decimals(answer.result)
        rows = answer.to_json_dict()["result"].get("details", {}).get("unexpected_rows")
        if not isinstance(rows, list):
            return []
        named = {f"k{number}": key for number, key in enumerate(rule.chain.keys)} if rule.chain else {}
        return [{named.get(name, name): value for name, value in dict(row).items()} for row in rows]

    def write_docs(self, url: str) -> str:
        """Writes the Data Docs of all suites that were run.

        Args:
            url: Folder or URL for the pages; files of the same names are replaced.

        Returns:
            URL of the first page.

        Raises:
            LakeUnavailableError: The storage does not take the pages.
        """
        # Great Expectations writes to local folders; the lake may be anywhere.
        # It prints what it thinks of queries whose braces are hidden; what we print may be read by a program.
        with _quiet(), redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
            self._hide_markup()
            self._context.add_data_docs_site(
                "docs",
                {
                    "class_name": "SiteBuilder",
                    "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": folder},
                    "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
                },
            )
            self._context.build_data_docs(site_names=["docs"])
            self._context.delete_data_docs_site("docs")
            root = Path(folder)
            target = Folder.open(url)
            for page in sorted(path for path in root.rglob("*") if path.is_file()):
                relative = page.relative_to(root)
                if relative.parts[0] == _STATIC and relative.name not in _STATIC_USED:
                    continue
                parent = target if relative.parent == Path() else target.folder(relative.parent.as_posix())
                content = page.read_bytes()
                if page.suffix == ".html":
                    # What others have named is still hidden: tags are those of the templates.
                    content = show(without_other_hosts(content.decode())).encode()
                parent.write(relative.name, content)
        return target.join("index.html")

    def _hide_markup(self) -> None:
        """What the pages are made of: the stored suites and results."""
        for store in (self._context.expectations_store, self._context.validation_results_store):
            backend: Any = store.store_backend
            for key in backend.list_keys():
                if key != backend.STORE_BACKEND_ID_KEY:
                    backend.set(key, hide(self._without_values(backend.get(key))))

    def _without_values(self, stored: str) -> str:
        """A stored result, as much of it as may be shown."""
        validation = json.loads(stored)
        sensitive = self._sensitive.get(validation.get("suite_name", ""), NOTHING)
        if sensitive is NOTHING:
            return stored
        for result in validation["results"]:
            result["exception_info"] = _exception_shown(result.get("exception_info") or {}, sensitive)
            if (result.get("expectation_config") or {}).get("meta", {}).get("strata_hides"):
                result["result"] = without_values(result.get("result") or {})
        return json.dumps(validation)


def _keep_decimals(result: dict[str, Any]) -> None:
    """Makes texts of the decimals among offending rows: Great Expectations makes floats of them, 2.0 of 2."""
    for name in _ROWS & result.keys():
        result[name] = _without_decimals(result[name])


def _without_decimals(given: Any) -> Any:
    if isinstance(given, Decimal):
        return f"{given:f}"
    if isinstance(given, dict):
        return {name: _without_decimals(value) for name, value in given.items()}
    return [_without_decimals(value) for value in given] if isinstance(given, list) else given


_STATIC = "static"
_STATIC_USED = {"favicon.ico"}
"""What pages refer to of the 4 MB of pictures, fonts and styles that Great Expectations 1.24 puts beside them."""


def _expectation(number: int, rule: Rule, sensitive: Sensitive = NOTHING) -> dict[str, Any]:
    condition = {} if rule.condition is None else {"row_condition": rule.condition, "condition_parser": "spark"}
    hides = {"strata_hides": True} if sensitive.hides(rule) else {}
    return {
        "type": rule.expectation,
        "kwargs": {**rule.kwargs, **condition},
        "meta": {"strata_rule": number, "notes": rule.because, **hides},
        "severity": _GX_SEVERITY[rule.severity],
    }


def _exception_shown(info: dict[str, Any], sensitive: Sensitive) -> dict[str, Any]:
    """What a page shows of an exception: its message and trace may quote any value of the table."""
    if not info.get("exception_message") and not any(isinstance(value, dict) for value in info.values()):
        return info
    raised = _exception({"exception_info": info})
    return {
        "raised_exception": True,
        "exception_message": MASK if raised is None else sensitive.error(raised),
        "exception_traceback": "",
    }


def _exception(result: dict[str, Any]) -> str | None:
    """Why an expectation could not be judged; the information is keyed by metric where a metric failed."""
    info = result.get("exception_info") or {}
    for details in (info, *(value for value in info.values() if isinstance(value, dict))):
        if details.get("exception_message"):
            return str(details["exception_message"]).strip().splitlines()[0]
    return None


def observed_of(details: Mapping[str, Any]) -> str | None:
    """What was found where that is one value, as Great Expectations has it in `details`."""
    detail = details.get("observed_value")
    return detail if detail is None or isinstance(detail, str) else example_text(detail)


def message_of(rule: Rule, raised: str | None, details: Mapping[str, Any]) -> str:
    """What was expected, and what was found as Great Expectations has it in `details`."""
    subject = f"{rule.column}: " if rule.column else ""
    if raised is not None:
        return f"{subject}the check could not be run: {raised}"
    reason = ""
    if details.get("unexpected_count") is not None:
        reason = f"; {counted(details['unexpected_count'], 'row does not comply', 'rows do not comply')}"
    elif details.get("observed_value") is not None:
        reason = f"; found {details['observed_value']}"
    return f"{subject}{rule.because}{reason}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Great Expectations and pyspark warn of their own internals; no reader of our output can act on that."""
    gx_log = logging.getLogger("great_expectations")
    level = gx_log.level
    gx_log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gx_log.setLevel(level)
