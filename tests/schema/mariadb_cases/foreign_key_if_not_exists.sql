-- gap d.u: whether the table had foreign key u_ibfk_1 before is not known
CREATE TABLE d.p (id INT PRIMARY KEY) ENGINE=InnoDB;
CREATE TABLE d.t (id INT) ENGINE=InnoDB;
ALTER TABLE d.t ADD FOREIGN KEY IF NOT EXISTS fk (id) REFERENCES d.p (id);
ALTER TABLE d.t ADD FOREIGN KEY IF NOT EXISTS fk (id) REFERENCES d.p (id);
CREATE TABLE d.u (id INT, FOREIGN KEY (id) REFERENCES d.p (id)) ENGINE=InnoDB;
ALTER TABLE d.u ADD FOREIGN KEY IF NOT EXISTS u_ibfk_1 (id) REFERENCES d.p (id);
