#!/usr/bin/env bash
# Makes the release of this commit again, at another path and as if on another day, and
# compares every byte with dist/release, which make release wrote at this commit.
#
#   COLD=yes   compiles everything anew, in a cache of its own
set -eu
cd "$(dirname "$0")/../.."
[ -e dist/release/SHA256SUMS ] || { echo "Run make release first." >&2; exit 1; }
[ -z "$(git status --porcelain --untracked-files=no)" ] || { echo "There are changes that are not committed: only a commit can be made twice." >&2; exit 1; }
other=$(mktemp -d)/a/path/of/another/length
finish() { git worktree remove --force "$other" && rm -rf "${other%/a/path/*}"; }
trap finish EXIT
git worktree add -q --detach "$other" HEAD
if [ -d web/node_modules ]; then cp -a web/node_modules "$other/web/" && touch "$other/web/node_modules/.package-lock.json"; fi
[ ! -d dist/debian ] || { mkdir -p "$other/dist" && cp -a dist/debian "$other/dist/"; } # Debian may have moved on
[ -z "${COLD:-}" ] || export GOCACHE=$other/dist/cache
version=$(sed -n 's/.*-linux-amd64.*//; s/.*  berth-\(.*\)\.cdx\.json$/\1/p' dist/release/SHA256SUMS)
(cd "$other" && umask 027 && TZ=Asia/Tokyo LC_ALL=C BERTH_VERSION=$version make --no-print-directory release >"${other%/a/path/*}/log" 2>&1) || { tail -20 "${other%/a/path/*}/log" >&2; exit 1; }
diff -u dist/release/SHA256SUMS "$other/dist/release/SHA256SUMS"
cmp dist/release/SHA256SUMS "$other/dist/release/SHA256SUMS"
echo "Both are the same: $(wc -l <dist/release/SHA256SUMS) files, $(du -sh dist/release | cut -f1)."
