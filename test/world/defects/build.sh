#!/bin/sh
# Builds the world with all defects, each behind its name in BERTH_DEFECT:
#
#	test/world/defects/build.sh OUT
#
# OUT then has world.test, names and run.py, and needs neither Go nor the repository.
set -eu

out=${1:?"say where to put it: build.sh OUT"}
mkdir -p "$out"
out=$(cd "$out" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

cd "$here/../../.."
git ls-files -z | tar --create --null --files-from - --ignore-failed-read | tar --extract --directory "$tree"
cd "$tree"
git apply "$here"/*.patch
go test -c -trimpath -ldflags '-s -w' -o "$out/world.test" ./test/world

# Name, commit, and the check that should see it.
for patch in "$here"/*.patch; do
	sed -n "s/^Mended by \([0-9a-f]*\)\. Seen by: \(.*\)\.\$/$(basename "$patch" .patch)	\1	\2/p" "$patch"
done >"$out/names"
cp "$here/run.py" "$out/run.py"
echo "$(wc -l <"$out/names") defects are in $out"
