-- Literals with a type, in parentheses and in the form of ODBC.
CREATE TABLE d.t1 (d01 TIME DEFAULT (((TIME'10:20:30'))), d02 TIME DEFAULT TIME'10:20:30', d03 date default (DATE'2001-01-01'), d04 datetime default (TIMESTAMP'2001-01-01 10:20:30'), d5 datetime default ({ts'2001-01-01 10:20:30'}), d6 time default {t'10:10:10'}, d7 date default ({d'2001-01-01'}));
CREATE TABLE d.t2 (d01 TIME(3) DEFAULT (TIME'10:20:30.1239'), b varchar(20) default (TIME'10:20:30'), c varchar(20) default TIME'10:20:30.10');
CREATE TABLE d.t3 (a int default (true), b int default (false), c bool default true);
CREATE TABLE d.t4 (a varchar(10) default ('a' 'b'), b varchar(10) default (_latin1'x' collate latin1_bin), c varchar(10) default (n'x'));
