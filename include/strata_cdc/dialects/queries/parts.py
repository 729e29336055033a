"""Which parts of sqlglot's expressions are read here: a statement with any other part is refused, because sqlglot may
have kept something in it that changes the meaning, as it keeps the NOT of NOT LIKE.
Not here: what the parts mean (`expressions.py`, `functions.py`, `selects.py`)."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

PARTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: frozenset(
        {"joins", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
    ),
    exp.Union: frozenset({"distinct", "order", "limit", "offset", "with_"}),
    exp.Subquery: frozenset({"alias", "with_", "joins"}),
    exp.With: frozenset({"recursive"}),
    exp.CTE: frozenset({"alias"}),
    exp.Alias: frozenset({"alias"}),
    exp.TableAlias: frozenset({"columns"}),
    exp.Table: frozenset({"db", "alias", "version", "hints", "joins"}),
    exp.Version: frozenset({"kind"}),
    exp.Join: frozenset({"on", "using", "side", "kind"}),
    exp.Identifier: frozenset({"quoted"}),
    exp.Ordered: frozenset({"desc", "nulls_first"}),
    exp.Interval: frozenset({"unit"}),
    exp.DataType: frozenset({"nested"}),
    exp.Literal: frozenset({"is_string"}),
    exp.Column: frozenset({"table", "db"}),
    exp.In: frozenset({"query"}),
    exp.Between: frozenset({"low", "high"}),
    exp.Like: frozenset({"negate"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.If: frozenset({"true", "false"}),
    exp.Cast: frozenset({"to"}),
    exp.Div: frozenset({"typed", "safe"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Concat: frozenset({"safe", "coalesce"}),
    exp.DateDiff: frozenset({"date_part_boundary"}),
    exp.ConcatWs: frozenset({"safe", "coalesce"}),
    exp.Count: frozenset({"big_int"}),
    exp.GroupConcat: frozenset({"separator"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.SubstringIndex: frozenset({"delimiter", "count"}),
    exp.Trim: frozenset({"position"}),
    exp.Replace: frozenset({"replacement"}),
    exp.Length: frozenset({"binary"}),
    exp.Round: frozenset({"decimals"}),
    exp.DateAdd: frozenset({"unit"}),
    exp.DateSub: frozenset({"unit"}),
    exp.TimeToStr: frozenset({"format"}),
    exp.JSONExtractScalar: frozenset({"only_json_types", "scalar_only"}),
}
"""By type, besides this, expression and expressions, which most types have."""
