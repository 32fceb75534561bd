#!/usr/bin/env bash
# Builds every fuzz target of the modules into dist/fuzz, instrumented for
# coverage, with its seeds and with run.sh. The folder runs on any machine with this
# architecture and a C library that is no older, without Go and without this source.
set -eu
cd "$(dirname "$0")/../.."
out=$PWD/dist/fuzz
rm -rf "$out"
mkdir -p "$out"
cp test/fuzz/run.sh "$out/"
: >"$out/targets"
grep -rl --include='*_test.go' '^func Fuzz' . | sort | xargs -n1 dirname | uniq | while read -r folder; do
	package=${folder#./}
	mkdir -p "$out/$package"
	go -C "$package" test -c -fuzz=Fuzz -ldflags='-s -w' -o "$out/$package/fuzz" . # in its own module
	if [ -d "$package/testdata/fuzz" ]; then
		mkdir -p "$out/$package/testdata"
		cp -r "$package/testdata/fuzz" "$out/$package/testdata/"
	fi
	cat "$package"/*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing\.F).*/\1/p' | sort | sed "s|^|$package |" >>"$out/targets"
done
mkdir -p "$out/python/tests" "$out/examples"
cp -r examples/scenarios "$out/examples/" # seeds of the simulator
cp -r python/berth "$out/python/"
cp python/tests/__init__.py python/tests/fuzz.py "$out/python/tests/"
find "$out" -name __pycache__ -prune -exec rm -rf {} +
XZ_OPT='-6 -T0' tar -C dist -cJf dist/fuzz.tar.xz fuzz
echo "$(wc -l <"$out/targets") targets, and Python's, are in dist/fuzz, which run.sh runs; dist/fuzz.tar.xz has $(du -m dist/fuzz.tar.xz | cut -f1) MiB for another machine"
