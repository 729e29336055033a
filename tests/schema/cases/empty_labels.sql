-- A label '' shows nothing where no other label precedes it, not even a comma.
CREATE DATABASE d;
USE d;
CREATE TABLE t (a SET('a','','b') DEFAULT 'b,', b SET('','x') DEFAULT ',x', c SET('a','') DEFAULT ',a', d SET('a','') DEFAULT '');
ALTER TABLE t MODIFY c SET('','a','b') DEFAULT 'b,a,', ALTER d SET DEFAULT ',';
