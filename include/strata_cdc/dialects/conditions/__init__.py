"""Conditions that users write, in MySQL's SQL: read against a schema version, evaluated elsewhere with MySQL's result.

Where MySQL and the engines that evaluate differ, and what is done here:

| in MySQL | here |
|---|---|
| text is compared by its collation | `=`, `<>`, `IN`, `LIKE`; `<`, `BETWEEN` only in `utf8mb4_0900_bin` |
| case and accents are ignored | plain ASCII is folded; a row with other text is an error |
| blanks at the end are ignored, except in `utf8mb4_0900_*` | they are removed from both sides |
| ENUM is compared as text or number | as text; its labels are known, so no label is an error |
| `'5' = 5`, `'2024-1-1' = d`: casts | refused: numbers without quotes, dates in full |
| decimals are exact; with a double, everything is double | the same; decimals with doubles are refused |
| `/` gives decimals, `DIV` whole numbers; `%` gives NULL for 0 | refused, except `%` by a number |
| integers of 64 bits; an error if they overflow | `+ - *` with 38 digits: no error, no wrong value |
| `||` is OR, or CONCAT by sql_mode | refused |
| `<=>` | the same |
| TRUE is 1, a number is a condition | the same |
| TIMESTAMP is shown in the session's zone | in UTC |
| TIME, YEAR | `'12:30:00'`, four digits |
| `dt <> '2024-02-29' AND dt = '2024-02-29 00:00:00'`: 9.7 compares the literals as texts | as dates |
| zero dates | the tables have NULL for them: such a value in a column of the condition ends the evaluation |
| columns that a partial image lacks | the same |
| functions | CHAR_LENGTH, ABS |

Not here: who evaluates conditions, on which rows (`quality/checks/`, `cli/`), other trees of sqlglot (`dialects`)."""
