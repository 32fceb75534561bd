#!/usr/bin/env bash
# publish.sh TAG makes a draft of a release from dist/release, for a person to look at
# and to publish. It needs gh, signed in.
set -eu
cd "$(dirname "$0")/../.."
tag=${1:?publish.sh TAG}
(cd dist/release && sha256sum --quiet -c SHA256SUMS)
exec gh release create "$tag" --draft --verify-tag --title "berth ${tag#v}" --notes-file dist/release/notes.md dist/release/*
