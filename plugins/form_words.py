"""What is wrong with a field of a form, in words: Airflow refuses a run before it starts, and shows what is raised here
to whoever filled in the form, or asked by REST. Without this plugin the first task says the same.
Not here: what fields may say (`strata_cdc.runs.form_fields`), the forms (`dags/forms.py`).

Airflow judges a form by its JSON schema. What breaks a pattern is told with the pattern, and with the schema around it;
what the check of a format raises is told as it is.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk.exceptions import ParamValidationError

from strata_cdc.errors import Usage
from strata_cdc.runs.form_fields import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable

_JUDGE: Final = "jsonschema"
"""What Airflow judges forms by; loaded as a plugin is, since every process of Airflow imports this file."""


def teach_formats() -> None:
    """Makes Airflow's judge of forms know ours. It makes a new checker for each value, of all formats that the class
    knows."""
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
        """Airflow has loaded its plugins."""
        teach_formats()
