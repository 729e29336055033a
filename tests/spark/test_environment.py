"""What a Spark job gets of the environment: what it needs, and no secrets of others."""

from __future__ import annotations

from strata_cdc.startup.spark import needed_by_spark, submit_environment

SECRETS = {
    "AIRFLOW_CONN_MYSQL_SHOP": "mysql://u:p@h/",
    "AIRFLOW__CORE__FERNET_KEY": "k",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "x",
    "STRATA_SETTINGS": "/x",
    "STRATA_DEMO_MYSQL_URL": "mysql://u:p@h/",
    "MYSQL_PWD": "p",
    "GITHUB_TOKEN": "t",
    "DATABASE_URL": "x",
    "NOT_PATH": "x",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "JAVA_HOME": "/java",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "HADOOP_CONF_DIR": "/etc",
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_ENDPOINT_URL": "http://h",
    "OPENBLAS_NUM_THREADS": "1",
    "https_proxy": "http://p",
    "PYTHONPATH": "/lib",
}


def test_a_job_gets_what_it_needs():
    assert needed_by_spark({**SECRETS, **NEEDED}) == NEEDED
    found = submit_environment(needed_by_spark({**SECRETS, **NEEDED}), alone=True)
    assert not found.keys() & SECRETS.keys()
    assert found["PYTHONPATH"] == "/lib"
