#!/usr/bin/env bash
# From a machine with Python 3.11+, make and a JDK to everything that the other targets need. Quick when nothing changed.
#
# usage: setup.sh [tests]      `tests` adds what only they need
#
# Registries, proxies and certificates are the user's: pip's and uv's own settings and environment variables are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 3; }

# True where packages of the system may be installed without asking: root on Debian or Ubuntu.
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install_packages() {
    say "installing $*"
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "Python 3.11, 3.12 or 3.13 is needed. Debian and Ubuntu: apt-get install python3 python3-venv"
}

java_major() { java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1; }

need_java() {
    if command -v java >/dev/null && [ "$(java_major)" -ge 17 ] 2>/dev/null; then return; fi
    may_install || die "a JDK 17 or newer is needed. Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless"
    install_packages openjdk-17-jre-headless || install_packages default-jre-headless
}

# What links the kernels to a library; without it they are compiled by each process, which works, and starts slower.
want_linker() {
    if command -v cc >/dev/null || command -v ld >/dev/null || ! may_install; then return; fi
    install_packages binutils || say "no linker: commands will start a second later"
}

make_environment() {
    local python=$1
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        local package
        package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
        may_install || die "Python's venv module is missing. Debian and Ubuntu: sudo apt-get install $package"
        install_packages "$package"
    fi
    "$python" -m venv .venv
}

install_requirements() {
    .venv/bin/pip install -qq --disable-pip-version-check --require-hashes --no-deps -r scripts/uv.txt
    # --no-deps: the lock is the whole closure, but for pyspark-client, which pyproject.toml keeps out.
    if ! scripts/uv.sh pip install -q --python .venv/bin/python --no-deps --require-hashes -r requirements-dev.txt; then
        say "uv could not; trying again with pip, which is slower and reads all of its own settings"
        .venv/bin/pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.txt
    fi
    scripts/uv.sh pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e .
}

# The S3-speaking server of the tests: it wants older packages than Airflow does.
make_s3_server() {
    scripts/uv.sh venv -q --clear --python .venv/bin/python .strata/s3
    scripts/uv.sh pip install -q --python .strata/s3/bin/python --no-deps --require-hashes -r requirements-s3.txt
}

# A copy of it saves the demo some seconds.
prepare_server() {
    local mysqld=.strata/mysql/bin/mysqld prepared=.venv/strata.server wanted
    [ -e "$mysqld" ] || mysqld=$(command -v mysqld) || return 0
    wanted=$(stat -Lc '%n %s %y' "$mysqld")
    if [ "$(cat "$prepared" 2>/dev/null)" = "$wanted" ]; then return; fi
    if .venv/bin/python -m scripts.startup.prepare_server; then printf '%s\n' "$wanted" >"$prepared"
    else say "the server's data directory is made when it starts"; fi
}

# pytest makes its folders only below one that is there.
if [ -n "${PYTEST_DEBUG_TEMPROOT:-}" ]; then mkdir -p "$PYTEST_DEBUG_TEMPROOT"; fi
python=$(find_python)
need_java
stamp=.venv/strata.stamp
wanted=$(cat requirements-dev.txt pyproject.toml scripts/uv.txt scripts/setup.sh | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then make_environment "$python"; fi
    say "installing the locked requirements (about 1.5 GB, half a minute after the downloads)"
    install_requirements
    printf '%s\n' "$wanted" >"$stamp"
fi
classes=.venv/strata.classes
wanted=$({ cat "$stamp" include/strata_cdc/startup/spark.py scripts/startup/share_classes.py; java -version 2>&1; } | sha256sum | cut -d ' ' -f 1)
sharing=
if [ "$(cat "$classes" 2>/dev/null)" != "$wanted" ]; then
    say "archiving the classes that Spark loads, beside the rest (half a minute)"
    # A JVM that cannot make one (1) is not asked again at each call; who was killed meanwhile is.
    {
        code=0
        .venv/bin/python -m scripts.startup.share_classes || code=$?
        if [ "$code" -le 1 ]; then printf '%s\n' "$wanted" >"$classes"; fi
        exit "$code"
    } &
    sharing=$!
fi
kernels=.venv/strata.kernels
wanted=$(cat "$stamp" include/strata_cdc/binlog/kernels/*.py include/strata_cdc/startup/{linked,processor}.py scripts/startup/*_kernels.py | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$kernels" 2>/dev/null)" != "$wanted" ]; then
    say "compiling the decoding kernels (a minute)"
    want_linker
    .venv/bin/python -m scripts.startup.link_kernels
    .venv/bin/python -m scripts.startup.warm_kernels >/dev/null
    printf '%s\n' "$wanted" >"$kernels"
fi
# A first start of Airflow takes some seconds less with it.
database=.venv/strata.database
if [ "$(cat "$database" 2>/dev/null)" != "$(cat "$stamp")" ]; then
    if .venv/bin/python -m scripts.startup.migrate_airflow; then cp "$stamp" "$database"
    else say "Airflow's database is made when it starts"; fi
fi
if [ "${1:-}" = tests ]; then
    s3=.strata/s3/strata.stamp
    wanted=$(sha256sum <requirements-s3.txt | cut -d ' ' -f 1)
    if [ "$(cat "$s3" 2>/dev/null)" != "$wanted" ]; then
        make_s3_server
        printf '%s\n' "$wanted" >"$s3"
    fi
    # Fetched beside the others: each has package lists of its own.
    {
        scripts/install_mariadb.sh .strata/mariadb sid || say "without MariaDB its tests are left out"
        scripts/install_mariadb.sh .strata/mariadb-10.11 bookworm || say "without MariaDB 10.11 its tests are left out"
    } &
    fetching=$!
    scripts/install_redis.sh .strata/redis redis
    scripts/install_redis.sh .strata/valkey valkey || say "without Valkey its two tests are left out"
    scripts/install_mysqlclient.sh .strata/mysqlclient || say "without mysqlclient its test is left out"
    wait "$fetching"
fi
if [ -n "$sharing" ]; then wait "$sharing" || say "without the archive Spark's jobs start some seconds later"; fi
if [ -z "${STRATA_DEMO_MYSQL_URL:-}" ]; then
    case "${STRATA_FLAVOUR:-mysql}" in
    mysql)
        scripts/install_mysql.sh .strata/mysql
        prepare_server
        ;;
    mariadb) scripts/install_mariadb.sh .strata/mariadb sid ;;
    ticdc) ;;
    *) say "FLAVOUR is mysql, mariadb or ticdc, not $STRATA_FLAVOUR"; exit 2 ;;
    esac
fi
say "ready; the command line is .venv/bin/strata"
