import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table t (a, b)")
db.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y"), (3, "x")])
print(db.execute("select b, sum(a) from t group by b order by b").fetchall(), db.execute("select json_extract('{\"a\": 5}', '$.a')").fetchone())
print(db.execute("select a, sum(a) over (order by a) from t").fetchall())
