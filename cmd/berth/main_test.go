package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": main})
}

// The scripts run the program with another one in the place of berth-serve; the
// commands themselves are tested in cmd/berth-serve and internal/cli.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true})
}
