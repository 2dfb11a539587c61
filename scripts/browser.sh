#!/bin/sh
# Make sure that there is a Chromium for the tests; on Debian, install it.
set -eu

for name in "${SEGRE_CHROMIUM:-chromium}" chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
command -v apt-get >/dev/null 2>&1 || {
    echo "the tests need Chromium; install it, or set SEGRE_CHROMIUM to its path" >&2
    exit 1
}
root=""
[ "$(id -u)" = 0 ] || root=sudo
echo "installing Debian's chromium for the tests (first time only)"
$root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq chromium >/dev/null
