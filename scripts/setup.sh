#!/bin/sh
# Set up .venv in the checkout. A Debian machine only needs python3 and make beforehand.
set -eu
cd "$(dirname "$0")/.."

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "segre needs Python 3.11 or newer, but python3 is $(python3 --version)" >&2
    exit 1
}
if [ ! -x .venv/bin/pip ]; then
    rm -rf .venv
    if ! python3 -m venv .venv >/dev/null 2>&1; then
        rm -rf .venv
        # On Debian, venv is a separate package.
        root=""
        [ "$(id -u)" = 0 ] || root=sudo
        echo "installing Debian's python3-venv"
        $root apt-get update -qq
        $root apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv .venv
    fi
fi
echo "installing segre into .venv (first time only)"
# Every file is compared with its hash, except for torch: hashes.txt says why.
sed '/^# Only/,$d' hashes.txt >.venv/hashes.txt
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r .venv/hashes.txt
.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
    --no-build-isolation --editable '.[dev]'
touch .venv/ready
