#!/usr/bin/env bash
# Holds the bill of materials that make release wrote against the schema of CycloneDX, and
# shows that the schema refuses broken ones.
#
#   test/release/bill.sh [FILE]   the default is dist/release/berth-*.cdx.json
#
# The schema, and the program that reads it, are fetched from the Go module proxy. It needs
# python3.
set -eu
cd "$(dirname "$0")/../.."
bill=${1:-$(echo dist/release/berth-*.cdx.json)}
[ -e "$bill" ] || { echo "There is no bill of materials in dist/release: run make release first." >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf 'module bill\n\ngo 1.26.0\n\nrequire (\n\t%s\n\t%s\n)\n' 'github.com/CycloneDX/cyclonedx-go v0.12.0' 'github.com/santhosh-tekuri/jsonschema/cmd/jv v0.7.0' >"$work/go.mod"
(
	cd "$work"
	export CGO_ENABLED=0 GOFLAGS=-mod=mod
	go build -trimpath -o jv github.com/santhosh-tekuri/jsonschema/cmd/jv
	go mod download github.com/CycloneDX/cyclonedx-go # nothing imports it, so the build has not
	install -D -m 644 -t schema "$(go list -m -f '{{.Dir}}' github.com/CycloneDX/cyclonedx-go)"/schema/*.json
	mv schema/jsf-0.82.schemax.json schema/jsf-0.82.schema.json # the name that the others call it by
)
spec=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["specVersion"])' "$bill")
valid() { "$work/jv" --map "http://cyclonedx.org/schema/=$work/schema" "$work/schema/bom-$spec.schema.json" "$1" >"$work/said" 2>&1; }

valid "$bill" || { cat "$work/said" >&2; echo "not ok  $bill is not as CycloneDX $spec wants it" >&2; exit 1; }
echo "ok      ${bill##*/} is valid by the schema of CycloneDX $spec"

# What the schema cannot say: references do not repeat, and the version is that of the file.
python3 - "$bill" <<'P'
import json, os, sys
bill = json.load(open(sys.argv[1]))
own, parts = bill["metadata"]["component"], bill["components"]
refs = [part["bom-ref"] for part in [own] + parts]
assert len(refs) == len(set(refs)), "a reference repeats"
assert os.path.basename(sys.argv[1]) in ("berth-%s.cdx.json" % own["version"], "berth.cdx.json"), "it is of version " + own["version"]
for kind in "golang/std@", "golang/github.com/spf13/cobra@", "npm/", "pypi/berth-gpu@" + own["version"]:
    assert any(ref.startswith("pkg:" + kind) for ref in refs), "it has nothing of pkg:" + kind
print("ok      it has %d parts of Go, npm and Python, each once" % len(parts))
P

# broken NAME EDIT: a bill that an edit in Python has broken is refused.
broken() {
	python3 -c 'import json, sys; b = json.load(open(sys.argv[1])); p = b["components"][0]; exec(sys.argv[3]); json.dump(b, open(sys.argv[2], "w"))' "$bill" "$work/broken.json" "$2"
	! valid "$work/broken.json" || { echo "not ok  the schema takes $1" >&2; exit 1; }
	echo "ok      refused: $1"
}
broken "another format" 'b["bomFormat"] = "SPDX"'
broken "no version of the format" 'del b["specVersion"]'
broken "a part without a name" 'del p["name"]'
broken "a part of an unknown kind" 'p["type"] = "gpu"'
broken "a licence that SPDX does not know" 'p["licenses"] = [{"license": {"id": "Berth-1.0"}}]'
broken "a sum that is none" 'p["hashes"] = [{"alg": "SHA-256", "content": "abc"}]'
broken "a field that no bill has" 'b["parts"] = []'
broken "a part twice" 'b["components"].append(p)'
