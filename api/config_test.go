package api_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
)

// Package config writes the section, this package describes it. Neither
// imports the other, so they meet at a file: it must come out of GPUConfig as
// it went in.
func TestGPUConfigIsWhatConfigWrites(t *testing.T) {
	text, err := os.ReadFile("../internal/config/testdata/gpu.json")
	if err != nil {
		t.Fatal(err)
	}
	var sections []api.GPUConfig
	strict(t, text, &sections)
	again, err := json.MarshalIndent(sections, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(again)+"\n"); diff != "" || len(sections) == 0 {
		t.Errorf("%d sections (-config +api):\n%s", len(sections), diff)
	}
}

func strict(t *testing.T, text []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}
