package run

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/develop/runs.md lists every event.
func TestThePageListsTheEvents(t *testing.T) {
	page, err := os.ReadFile("../../../docs/develop/runs.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("run.go")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| event | |\n|---|---|\n")
	for _, found := range regexp.MustCompile(`What = "(\w+)" +// (.+)`).FindAllStringSubmatch(string(source), -1) {
		table.WriteString("| " + found[1] + " | " + found[2] + " |\n")
	}
	if !strings.Contains(string(page), table.String()+"\n") {
		t.Errorf("docs/develop/runs.md does not have this table:\n%s", table.String())
	}
}
