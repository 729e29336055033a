"""Queries of MySQL's SQL, read and written anew for DuckDB so that the answer is the one that MySQL would give.

sqlglot reads the text. Every expression then becomes DuckDB's SQL together with what MySQL knows of its values (type,
digits, collation); an expression, a function or a part of a clause that is not known here is refused with its position.

| in MySQL | here |
|---|---|
| text is compared by its collation | keys for the characters that are known (`collations.py`); others are an error |
| a group of several spellings shows any of them | an error; ANY_VALUE() shows any |
| ENUM is ordered by its numbers, compared as text | the same |
| NULLs come first | the same |
| `/` and AVG show four digits more, and keep more | the same; used further only by ROUND |
| decimals are exact to 65 digits | to 38; more are an error |
| integers of 64 bits; an error if they overflow | the same |
| sums of floating-point numbers | refused: they depend on the order of the rows |
| `'5' = 5`, `'2024-1-1' = d`: casts | refused: CAST(), dates in full |
| `||`, `!`, `&&` | refused: they depend on sql_mode |
| comparisons of comparisons | need parentheses |
| zero dates | an error where they are read |
| TIMESTAMP is shown in the session's zone | in UTC |
| a text literal has the session's collation | the default of utf8mb4 |

`spark.py` makes Spark's SQL of DuckDB's.

Not here: the tables that are read, running the query (`past/`); conditions on one table (`dialects/conditions/`)."""
