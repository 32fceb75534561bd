#!/usr/bin/env bash
# Tries what make release wrote as people use it: the Debian package on a machine of its own,
# with systemd as process 1 and without a compiler (check.sh), the archive and the rpm
# there too, the wheels and the sdist with pip.
#
#   test/release/package.sh [DIR]    DIR keeps the machine and the older package for the next time
#
# It needs root, mmdebstrap, systemd-nspawn, lintian, rpm2cpio and cpio.
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" -eq 0 ] || { echo "make test-package boots a machine of its own, and needs root." >&2; exit 1; }
for tool in mmdebstrap systemd-nspawn lintian rpm2cpio cpio; do
	command -v "$tool" >/dev/null || { echo "There is no $tool: apt-get install mmdebstrap systemd-container lintian rpm2cpio cpio" >&2; exit 1; }
done
arch=$(dpkg --print-architecture)
before=256e1260 # the commit that upgrades start from
keep=$(realpath -m "${1:-$(mktemp -d)}")
machine=$keep/machine
mkdir -p "$keep"

# The version is that of a release, so that names are those that users see.
export BERTH_VERSION=${BERTH_VERSION:-$(cat VERSION)}
new=$PWD/dist/release/berth_${BERTH_VERSION}_$arch.deb
[ -e "$new" ] || ARCHES=$arch IMAGES=no deploy/release/make.sh

recipe=$keep/recipe # of this tree, with the settings that the older programs know
[ -e "$recipe" ] || git worktree add -q --force --detach "$recipe" HEAD
git show "$before:deploy/berth.yaml" >"$recipe/deploy/berth.yaml"
pack() { # pack VERSION PROGRAMS ENTRIES: a package of other programs by that recipe
	dist/pack -repository "$recipe" -version "$1" -arch "$arch" -programs "$2" -entries "$3" -extra dist/extra -created 1 -out "$keep/other"
}
old=$keep/other/berth_0.0.9_$arch.deb
if [ ! -e "$keep/programs/berth-serve" ]; then
	tree=$keep/tree
	git worktree add -q --force --detach "$tree" "$before"
	# Not by its own Makefile, which knows no version.
	make -C "$tree" -f "$PWD/Makefile" --no-print-directory programs ARCH="$arch" VERSION=0.0.9
	cp -r "$tree/dist/programs/$arch" "$keep/programs"
	sed -n 's/^const Version = //p' "$tree/internal/lease/stored/entry.go" >"$keep/entries"
	git worktree remove --force "$tree"
fi
pack 0.0.9 "$keep/programs" "$(cat "$keep/entries")"
pack 0.0.8 "dist/programs/$arch" 5 # one that knows no pools: it is refused before it is unpacked
git worktree remove --force "$recipe"

(cd deploy/release && CGO_ENABLED=0 go test -trimpath .)
echo "lintian:"
lintian --allow-root --fail-on error --tag-display-limit 3 "$new"

echo "The bill of materials:"
test/release/bill.sh "dist/release/berth-$BERTH_VERSION.cdx.json"

echo "pip:"
pip=$keep/pip
rm -rf "$pip"
python3 -m venv "$pip"
at() { (cd / && "$pip/bin/python" "$@"); }
for file in dist/release/berth_gpu-*-any.whl dist/release/berth_gpu-*.tar.gz dist/release/berth_gpu-*"$(uname -m)".whl; do
	at -m pip install --quiet --disable-pip-version-check --no-index --force-reinstall "$PWD/$file"
	[ "$(at -c 'import berth; print(berth.__version__)')" = "$BERTH_VERSION" ]
	echo "ok      ${file##*/} installs, and says $BERTH_VERSION"
done
"$pip/bin/berth" version | grep -q "berth $BERTH_VERSION " && echo "ok      its command runs: $("$pip/bin/berth" version)"

site=$keep/site
rm -rf "$site"
mkdir "$site"
tar -xzf "dist/release/berth-$BERTH_VERSION-site.tar.gz" -C "$site" --strip-components=1
go test -count=1 ./internal/door/webui/help -run TestNoLinkOfTheSiteIsDead -help.site="$site" >/dev/null
echo "ok      the site has no dead link: $(find "$site" -name '*.html' | wc -l) pages"

finish() { [ ! -e "$machine.pid" ] || test/systemd/run.sh stop "$machine"; }
trap finish EXIT
inside() { test/systemd/run.sh in "$machine" /bin/bash /root/check.sh "$@"; }
[ -d "$machine/usr" ] || test/systemd/run.sh make "$machine"
for command in go node gcc; do [ ! -e "$machine/usr/bin/$command" ] || { echo "the machine has $command" >&2; exit 1; }; done
cp test/release/check.sh "$machine/root/"
CGO_ENABLED=0 go build -trimpath -o "$machine/root/chaos" ./test/chaos
mkdir -p "$machine/root/packages"
cp "$new" "$machine/root/packages/new.deb"
cp "$old" "$machine/root/packages/old.deb"
cp "$keep/other/berth_0.0.8_$arch.deb" "$machine/root/packages/ancient.deb"
cp "dist/release/berth-$BERTH_VERSION-linux-$arch.tar.gz" "$machine/root/packages/archive.tar.gz"
rm -rf "$machine/root/rpm"
mkdir -p "$machine/root/rpm/scripts"
rpm2cpio dist/release/berth-*."$(uname -m)".rpm | (cd "$machine/root/rpm" && cpio -id --quiet --no-absolute-filenames 2>/dev/null) # the names in it are absolute
[ -x "$machine/root/rpm/usr/bin/berth" ]
cp deploy/release/rpm/* "$machine/root/rpm/scripts/"
echo "127.0.0.1 localhost $(hostname)" >"$machine/etc/hosts"
for user in worker:1234 other:1235; do
	grep -q "^${user%:*}:" "$machine/etc/passwd" || chroot "$machine" useradd --create-home --uid "${user#*:}" --shell /bin/sh "${user%:*}"
done
echo "In a machine with systemd:"
failed=
test/systemd/run.sh start "$machine"
inside fresh "$BERTH_VERSION" || failed=yes
inside upgrade "$BERTH_VERSION" || failed=yes
test/systemd/run.sh stop "$machine"
test/systemd/run.sh start "$machine"
inside rebooted || failed=yes
inside purge || failed=yes
inside swaps || failed=yes
inside others "$BERTH_VERSION" || failed=yes
[ -z "$failed" ] || exit 1
echo "The release works as people use it."
