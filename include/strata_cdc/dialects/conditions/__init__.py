"""Conditions that users write, in MySQL's SQL: read against a schema version, evaluated elsewhere with MySQL's answer.

What differs between MySQL and the engines that evaluate, and what becomes of it here:

| in MySQL | here |
|---|---|
| text is compared by its collation | `=`, `<>`, `IN`, `LIKE`; `<`, `BETWEEN` in `utf8mb4_0900_bin` alone |
| case and accents do not count | plain ASCII is folded; a row with other text is an error |
| blanks at the end do not count, but in `utf8mb4_0900_*` | they are cut off both sides |
| ENUM is compared as text or number | as text; its labels are known, so none of them ends anything |
| `'5' = 5`, `'2024-1-1' = d`: casts | refused: numbers without quotes, dates in full |
| decimals are exact, with a double all is double | the same; decimals with doubles are refused |
| ``, `DIV` give decimals; `%` NULL for 0 | refused, but for `%` by a number |
| integers of 64 bits, an error beyond | `+ - *` in 38 digits: no error, no wrong value |
| `||` is OR, or CONCAT by sql_mode | refused |
| `<=>` | the same |
| TRUE is 1, a number is a condition | the same |
| TIMESTAMP is shown in the session's zone | in UTC |
| TIME, YEAR | `'12:30:00'`, four digits |
| `dt <> '2024-02-29' AND dt = '2024-02-29 00:00:00'`: 9.7 compares the literals as texts | as dates |
| zero dates | the tables have NULL for them: a row with one in a column that is named ends the evaluation |
| columns that a partial image lacks | the same |
| functions | CHAR_LENGTH, ABS |

Not here: which rows are asked for (`quality/checks/`, `cli/`), sqlglot's trees elsewhere (`strata.dialects`)."""
