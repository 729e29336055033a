-- An ALTER in two phases is in the log twice; only its end has an effect, and a failed one has none.
CREATE TABLE d.t (a INT PRIMARY KEY, b INT);
INSERT INTO d.t VALUES (1, 1), (2, 1);
SET binlog_alter_two_phase = 1;
ALTER TABLE d.t ADD COLUMN c INT DEFAULT 5;
ALTER TABLE d.t ADD UNIQUE (b) -- refused: the values are equal
;
CREATE INDEX i ON d.t (b);
DROP INDEX i ON d.t;
ALTER TABLE d.t RENAME d.u, ADD COLUMN e UUID;
CREATE TABLE d.t (a INT);
