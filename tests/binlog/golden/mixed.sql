-- Recorded with MySQL 9.7.4, default settings and GTIDs on: mixed.binlog holds exactly this.
create database d; use d;
create table t(a int primary key auto_increment, b varchar(300), c enum('x','y'), e set('p','q'), f decimal(10,2) unsigned,
  g geometry, v vector(3), y year, bb bit(11), ch char(255) charset utf8mb4, j json, dt datetime(3));
insert into t(b) values('x'),('y');
set global binlog_row_metadata='full';
insert into t(b) values('x'),('y');
set global binlog_row_metadata='minimal';
set gtid_next='automatic:foo_tag';
insert into t(b) values('x'),('y');
create table u(a int);
set gtid_next='automatic';
set binlog_transaction_compression=on;
insert into t(b) values('x'),('y');
set binlog_transaction_compression=off;
set binlog_rows_query_log_events=on;
insert into t(b) values('x'),('y');
xa start 'abc'; insert into u values(1); xa end 'abc'; xa prepare 'abc'; xa commit 'abc';
xa start 'abc'; insert into u values(1); xa end 'abc'; xa commit 'abc' one phase;
begin; savepoint a; insert into u values(1); savepoint b; insert into u values(2); rollback to b; commit;
create table w as select * from u;
create temporary table tt(a int); insert into tt values(1); drop temporary table tt;
flush binary logs;
