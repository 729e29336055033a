"""What is wrong with a field of a form, in words: Airflow refuses a run before it starts, and shows the error raised
here to the person who filled in the form, or called REST. Without this plugin the first task reports the same.
Not here: the checks of fields (`strata_cdc.runs.form_fields`), the forms (`airflow/forms.py`).

Airflow checks a form by its JSON schema. If a value does not match a pattern, Airflow shows the pattern and the schema
around it; an error that the check of a format raises is shown as it is.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.plugins_manager import AirflowPlugin

from strata_cdc.airflow.older import ParamValidationError
from strata_cdc.errors import Usage
from strata_cdc.runs.form_fields import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable

_JUDGE: Final = "jsonschema"
"""The library by which Airflow checks forms; imported with the plugin, because every process of Airflow imports this
file."""


def teach_formats() -> None:
    """Adds Strata's formats to Airflow's check of forms. Airflow makes a new checker for each value, with all formats
    that the class knows."""
    checkers = importlib.import_module(_JUDGE).FormatChecker.checkers
    for name, check in CHECKS.items():
        checkers[name] = partial(_judge, check), ()


def _judge(check: Callable[[object], None], value: object) -> bool:
    try:
        check(value)
    except Usage as error:
        raise ParamValidationError(f"{error.message}. {error.remedy or ''}".strip()) from None
    return True


class FormWordsPlugin(AirflowPlugin):
    """Lets Airflow say in words what is wrong with a form."""

    name = "strata_form_words"

    @classmethod
    def on_load(cls, *_: Any, **__: Any) -> None:
        """Airflow calls it when it has loaded its plugins."""
        teach_formats()
