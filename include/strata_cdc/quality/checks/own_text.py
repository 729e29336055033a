"""A text of JSON or YAML to values, and to the lines on which they are.
Not here: what the values have to be (`own_file.py`)."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

    from strata_cdc.fields import Path


class UnreadableFileError(ValueError):
    """A text that is not as it must be; the message has all that is wrong with it, each with its line."""


def read_json(text: str) -> Any:
    """The values of a JSON text.

    Raises:
        UnreadableFileError: It is neither JSON nor YAML, or a key is there twice in an object.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise UnreadableFileError(f"line {error.lineno}: this is no JSON: {error.msg}") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableFileError(f'"{twice}" is there twice in one object')
    return mapping


def compose(text: str) -> yaml.Node | None:
    """The nodes of a YAML text, None for an empty one; JSON is YAML, so they have the lines of JSON, too.

    Raises:
        UnreadableFileError: It is no YAML.
    """
    import yaml

    try:
        node: yaml.Node | None = yaml.compose(text, _loader())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise UnreadableFileError(f"line {line}: this is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableFileError(f"this is no YAML: {str(error).splitlines()[0]}") from None
    return node


@cache
def _loader() -> type[yaml.SafeLoader]:
    """YAML's values as JSON has them: `on`, `no`, times and numbers with colons are texts (YAML 1.2, core schema)."""
    import yaml

    # Instead of PyYAML's own resolvers.
    loader: type[yaml.SafeLoader] = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in (
        ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", "[-+]?[0-9]+", list("-+0123456789")),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ):
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)
    return loader


def yaml_values(node: yaml.Node | None) -> Any:
    """The values of nodes.

    Raises:
        UnreadableFileError: A key is there twice in an object, or a list or object is in itself.
    """
    try:
        return _values(node) if node is not None else None
    except RecursionError:
        raise UnreadableFileError("this is no YAML that JSON could be: something is in itself") from None


def _values(node: yaml.Node) -> Any:
    import yaml

    if isinstance(node, yaml.MappingNode):
        pairs = [(_key(key), _values(value)) for key, value in node.value]
        names = [name for name, _ in pairs]
        for at, (key, _) in enumerate(node.value):
            if names[at] in names[:at]:
                raise UnreadableFileError(f'line {key.start_mark.line + 1}: "{names[at]}" is there twice in one object')
        return dict(pairs)
    if isinstance(node, yaml.SequenceNode):
        return [_values(value) for value in node.value]
    return _scalar(node)


def _key(node: yaml.Node) -> str:
    return _text(node.value)


def _text(text: str) -> str:
    """JSON escapes what is outside the basic plane as two surrogates, which PyYAML leaves two."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _scalar(node: yaml.Node) -> Any:
    kind, text = node.tag.rpartition(":")[2], node.value
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    return int(text) if kind == "int" else float(text) if kind == "float" else _text(text)


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, of each key and list item; empty where the text is JSON that is no YAML.

    That is rare: YAML knows some characters not, and no key of more than 1,024.
    """
    try:
        # A tab is no blank to YAML, and no text of JSON contains one.
        node = compose(text.replace("\t", " "))
        return dict(_placed(node, ())) if node is not None else {}
    except (UnreadableFileError, RecursionError):
        return {}


def _placed(node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            where = (*path, _key(key))
            yield where, key.start_mark.line + 1
            yield from _placed(value, where)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield (*path, at), value.start_mark.line + 1
            yield from _placed(value, (*path, at))
