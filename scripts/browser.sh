#!/bin/sh
# Make a real browser available to the tests: Debian's chromium, and playwright to drive it. Best effort: where neither
# root nor apt-get is there, the browser tests skip and say so. Quick when all is there.
# Usage: BIN=.venv/bin sh scripts/browser.sh
set -eu
BIN=${BIN:-.venv/bin}

"$BIN/python" -c "import playwright" 2>/dev/null || "$BIN/python" -m pip install --quiet 'playwright>=1.49'
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "There is no chromium, and only root can install it here: apt-get install chromium. Browser tests will skip." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# A list of packages that is too old names files that are gone.
apt-get -o Acquire::http::Timeout=60 update -qq && apt-get -o Acquire::http::Timeout=60 install -y -qq --no-install-recommends chromium >/dev/null || {
  echo "apt-get could not install chromium. Browser tests will skip." >&2
  exit 1
}
