-- Labels beyond the eighth, which a snapshot cannot query.
CREATE TABLE d.t (a SET('a','b','c','d','e','f','g','h','i','j','ü') CHARSET utf8mb3,
  b SET('1','2','3','4','5','6','7','8','9','x','y','z') CHARSET utf8mb4 DEFAULT '9,z', c ENUM('a','ü') CHARSET utf8mb3);
ALTER TABLE d.t MODIFY a SET('a','b','c','d','e','f','g','h','i','j','ü','ß') CHARSET utf8mb4;
