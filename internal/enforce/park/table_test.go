package park

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table stands in the documentation as it is.
func TestTheTableIsShown(t *testing.T) {
	const page = "../../../docs/develop/parking.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	shown.WriteString("| its memory is | what happens | if | then it is | and berth does |\n|---|---|---|---|---|\n")
	for _, r := range table {
		acts := []string{}
		for _, act := range r.do {
			acts = append(acts, string(act))
		}
		fmt.Fprintf(&shown, "| %s | %s | %s | %s | %s |\n", r.at, r.on, r.when, r.to, strings.Join(acts, ", "))
	}
	if !strings.Contains(string(text), shown.String()) {
		t.Errorf("%s does not show the table as it is:\n%s", page, shown.String())
	}
}
