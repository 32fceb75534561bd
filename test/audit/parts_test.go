package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestNpmParts(t *testing.T) {
	parts, err := npmParts([]byte(`{"packages": {
		"": {"name": "berth-page"},
		"node_modules/@a/b": {"version": "1.0.0", "integrity": "sha512-AQI=", "license": "MIT"},
		"node_modules/c": {"version": "2.0.0", "dev": true, "license": "MIT"}}}`), "web")
	if err != nil || len(parts) != 1 {
		t.Fatalf("%v, %v", parts, err)
	}
	want := component{Type: "library", Ref: "pkg:npm/%40a/b@1.0.0", Name: "@a/b", Version: "1.0.0", Package: "pkg:npm/%40a/b@1.0.0"}
	got := parts[0]
	if got.Ref != want.Ref || got.Name != want.Name || got.Hashes[0] != (hash{"SHA-512", "0102"}) || got.Licences[0].Expression != "MIT" || got.folder != "web/node_modules/@a/b" {
		t.Errorf("%+v", got)
	}
	if _, err := npmParts([]byte("{"), "web"); err == nil {
		t.Error("half a lock file is read")
	}
}

func TestEveryPartHasALicence(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(with, "License.txt"), []byte("Do as you like.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, b := part{component{Ref: "a", Name: "a", Version: "1"}, with}, part{component{Ref: "b", Name: "b", Version: "2"}, with}
	text, err := licences([]part{a, b})
	if err != nil || strings.Count(text, "Do as you like.") != 1 || !strings.Contains(text, "a 1\nb 2\n") {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := licences([]part{a, {component{Ref: "c"}, without}}); err == nil || !strings.Contains(err.Error(), "c has no licence") {
		t.Errorf("a part without a licence: %v", err)
	}
}

// The references in a bill must not repeat, and each part names its package.
func TestBillOfParts(t *testing.T) {
	text, err := json.Marshal(billOfParts("1.2.3", []part{{component{Type: "library", Ref: "pkg:npm/a@1", Name: "a", Package: "pkg:npm/a@1"}, ""}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"purl":"pkg:github/berth-gpu/berth@1.2.3"`, `"purl":"pkg:pypi/berth-gpu@1.2.3"`, `"purl":"pkg:npm/a@1"`, `"licenses":[{"expression":"Apache-2.0"}]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

func TestModulesOf(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "github.com/berth-gpu/berth", Version: "v0.0.0", Replace: &debug.Module{Path: "../", Version: "(devel)"}},
		{Path: "example.com/B", Version: "v1.0.0"},
	}}
	parts := modulesOf(info, "/cache", "/go")
	if len(parts) != 2 || parts[0].folder != "/go" || parts[1].folder != "/cache/example.com/!b@v1.0.0" {
		t.Errorf("%+v", parts)
	}
}

func TestEscaped(t *testing.T) {
	if got := escaped("github.com/NVIDIA/go-nvml"); got != "github.com/!n!v!i!d!i!a/go-nvml" {
		t.Error(got)
	}
}
