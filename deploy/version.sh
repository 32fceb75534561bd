#!/usr/bin/env bash
# Prints the version that this tree is built as. The file VERSION says it. A commit that
# is not the tag of that version, or a tree with changes, is a build on the way to it:
# 0.1.0 at the tag v0.1.0, else 0.1.0-dev+COMMIT, with .dirty where files were changed.
#
#   deploy/version.sh          for programs, archives and images
#   deploy/version.sh python   for Python (PEP 440): 0.1.0.dev0+COMMIT
#   deploy/version.sh package  for dpkg and rpm: 0.1.0~dev+COMMIT sorts before 0.1.0
#
# BERTH_VERSION takes the place of all that is found out here.
set -eu
cd "$(dirname "$0")/.."
version=${BERTH_VERSION:-}
if [ -z "$version" ]; then
	version=$(tr -d '[:space:]' <VERSION)
	if [ -e .git ] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
		changed=; [ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || changed=.dirty
		tagged=; [ "$(git tag --points-at HEAD --list "v$version" 2>/dev/null)" ] && tagged=yes
		[ "$tagged" ] && [ -z "$changed" ] || version=$version-dev+$commit$changed
	else
		version=$version-dev
	fi
fi
case ${1:-} in
python) version=$(sed 's/-dev/.dev0/' <<<"$version") ;;
package) version=${version/-dev/\~dev} ;;
esac
echo "$version"
