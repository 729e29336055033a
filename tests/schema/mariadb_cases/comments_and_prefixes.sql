-- What the server did not execute is no code in the log.
CREATE TABLE d.t (a INT /*!50700 , b INT */ /*!40000 , c INT */ /*M! , d INT */ /*M!100301 , e INT */ /*M!999999 , f INT */);
/*M!100301 ALTER TABLE d.t ADD g INT */;
/*!50000 ALTER TABLE d.t ADD h INT */;
SET STATEMENT sql_mode = '', lock_wait_timeout = (1 + 2) FOR ALTER TABLE d.t ADD i VARCHAR(30000) CHARSET utf8mb4;
SET STATEMENT explicit_defaults_for_timestamp = 0 FOR ALTER TABLE d.t ADD j TIMESTAMP;
ALTER TABLE d.t WAIT 3 ADD k INT;
ALTER TABLE d.t NOWAIT DROP k;
DROP TABLE d.t;
