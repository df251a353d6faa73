"""Fill texts with values, in the template language jinja2; an unknown name is a one-line error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from carry.config.settings import SettingsError, describe

SETTINGS = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
TEXTS = jinja2.Environment(**SETTINGS, keep_trailing_newline=True, autoescape=False)


def fill_template(text: str, values: Mapping[str, Any]) -> str:
    """Return a text in which the expressions between braces are replaced by their values.

    >>> fill_template("{{ names | join(' and ') }}: {{ width[0] }}", {"names": "ab", "width": [64]})
    'a and b: 64'
    >>> fill_template("{{ name }}", {"names": "ab"})
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: '{{ name }}': 'name' is undefined; expected known names

    Raises:
        SettingsError: for a name without a value, and for a text that is no template.
    """
    try:
        return TEXTS.from_string(text).render(values)
    except (jinja2.TemplateError, LookupError) as error:
        raise SettingsError(f"{describe(text)}: {error}; expected known names") from None
