package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// make audit sets it: govulncheck is fetched and built first.
var withDatabase = flag.Bool("audit.database", false, "run govulncheck with a database of this folder")

// A plain test binary lacks what a release has to have.
func TestHardened(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hardened(path); err == nil || !strings.Contains(err.Error(), "RELRO") && !strings.Contains(err.Error(), "guard the stack") { // by its flags
		t.Errorf("a test binary: %v", err)
	}
	if _, err := hardened("nothing-here"); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no binary: %v", err)
	}
}

func TestParseExposure(t *testing.T) {
	got, err := parseExposure("…\n→ Overall exposure level for berth.service: 3.3 OK 🙂\n")
	if err != nil || got != 3.3 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "Overall exposure level for berth.service: high", "Overall exposure level for other.service: 1.0 OK"} {
		if _, err := parseExposure(text); err == nil {
			t.Errorf("%q is a rating", text)
		}
	}
}

// A unit that asks for everything is refused, by the tool that make audit uses.
func TestExposureOfAnOpenUnit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "berth.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	switch _, err := exposure(dir, "", unitLimit); {
	case errors.Is(err, errUnchecked):
		t.Log(err) // it says what to install, which is what is tested then
	case err == nil || !strings.Contains(err.Error(), "at most 3.6"):
		t.Errorf("it is rated: %v", err)
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		exit    int
		says    string
		refused bool
	}{
		"nothing":     {"No vulnerabilities found.", 0, "", false},
		"found":       {"Vulnerability #1: GO-2099-0001\nexit status 3\n", 1, "GO-2099-0001", true},
		"unreachable": {"govulncheck: fetching vulnerabilities: Get \"https://vuln.go.dev/index/modules.json.gz\": dial tcp: no route\nexit status 1\n", 1, "not checked", false},
		"broken":      {"go: cannot find main module\n", 1, "main module", true},
	} {
		_, err := judge(c.text, c.exit)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, errUnchecked) == c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A database that knows a fault in something that berth calls makes the check
// fail, and one that is not there makes it say so.
func TestLocalDatabase(t *testing.T) {
	if !*withDatabase {
		t.Skip("make audit runs it: govulncheck is fetched first")
	}
	here, err := filepath.Abs("testdata/vulndb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vulnerabilities("file://"+here, "../../cmd/berth-serve"); err == nil || !strings.Contains(err.Error(), "GO-2099-0001") {
		t.Errorf("a fault in the database: %v", err)
	}
	if _, err := vulnerabilities("https://127.0.0.1:1", "../../gpu"); !errors.Is(err, errUnchecked) {
		t.Errorf("a database that is not there: %v", err)
	}
}

func TestBill(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/berth"}, Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0"}, {Path: "example.com/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v3.0.0"}},
	}}
	text, err := json.Marshal(billOf("berth", "v1.2.3", info, []byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"bomFormat":"CycloneDX"`, `"purl":"pkg:golang/example.com/berth@v1.2.3"`, `"purl":"pkg:golang/std@1.26.8"`, `"purl":"pkg:golang/example.com/a@v1.0.0"`,
		`"purl":"pkg:golang/example.com/c@v3.0.0"`, `"alg":"SHA-256","content":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"`,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}
