#!/usr/bin/env bash
# Writes a release into dist/release: for each kind of machine an archive and two
# packages; the wheels and the sdist of the Python package; the images; the bill of
# materials; the manual as a site; the notes; and the sums of all of them. make release runs it.
#
#   ARCHES=amd64 IMAGES=no deploy/release/make.sh    less of it
#   MAINTAINER='Name <address>'                      who answers for the packages
set -eu
cd "$(dirname "$0")/../.."
version=$(deploy/version.sh) package=$(deploy/version.sh package)
created=$(git log -1 --format=%ct 2>/dev/null || echo 0)
native=$(go env GOHOSTARCH)
arches=${ARCHES:-amd64 arm64}
out=$PWD/dist/release extra=$PWD/dist/extra
# The page is in the programs; nothing about the checkout is.
[ -e internal/door/webui/page/index.html ] || { echo "The page was not built, and a release has one: run make web." >&2; exit 1; }
export GOFLAGS=-buildvcs=false
rm -rf "$out" "$extra"
mkdir -p "$out" "$extra"

binaries=()
for arch in $arches; do
	[ "$arch" = "$native" ] || deploy/tools.sh "cross-$arch"
	make --no-print-directory programs ARCH="$arch" VERSION="$version"
	binaries+=("dist/programs/$arch/berth" "dist/programs/$arch/berth-serve")
done
if [ "${IMAGES:-}" != no ]; then
	make --no-print-directory driver VERSION="$version"
	cp "dist/programs/$native"/* bin/
	binaries+=(bin/berth-dra)
	make --no-print-directory archives VERSION="$version" IMAGE_TAG="${version/+/-}"
	for image in berth berth-dra; do gzip -n -9 <"dist/images/$image.tar" >"$out/$image-$version-image-$native.tar.gz"; done
fi

rm -rf dist/site
go run ./deploy/site dist/site
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$created" -C dist --transform "s,^site,berth-$version-site," -c site | gzip -n -9 >"$out/berth-$version-site.tar.gz"
go run ./deploy/manual -version "$version" -date "$(date -u -d "@$created" +%F)" "$extra"
go run ./test/audit -parts "$extra" -version "$version" "${binaries[@]}"
cp "$extra/berth.cdx.json" "$out/berth-$version.cdx.json"
(cd deploy/release && CGO_ENABLED=0 go build -trimpath -o ../../dist/pack .)
for arch in $arches; do
	dist/pack -repository . -version "$version" -package-version "$package" -arch "$arch" -programs "dist/programs/$arch" -extra "$extra" -created "$created" -out "$out" ${MAINTAINER:+-maintainer "$MAINTAINER"}
	BERTH_VERSION=$version python3 python/build_backend/backend.py wheel "$out" "dist/programs/$arch/berth" "$arch"
done
BERTH_VERSION=$version python3 python/build_backend/backend.py wheel "$out"
BERTH_VERSION=$version python3 python/build_backend/backend.py sdist "$out"
deploy/release/notes.sh "$(cat VERSION)" <CHANGELOG.md >"$out/notes.md"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
(cd "$out" && du -h -- * | sort -k 2)
