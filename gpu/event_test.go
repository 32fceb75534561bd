package gpu

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A code that is declared and not listed could not be asked for in a hook, and
// would be missing on the metrics page until it first came.
func TestEveryCodeIsListedAndDocumented(t *testing.T) {
	declared := codes(t, "event.go", `EventCode = "(\w+)"`)
	var listed []string
	for _, c := range EventCodes() {
		listed = append(listed, string(c))
	}
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("EventCodes lacks a code or has one too many (-declared +listed):\n%s", diff)
	}
	documented := codes(t, "../docs/reference/events.md", "(?m)^\\| `(\\w+)` \\|")
	slices.Sort(declared)
	slices.Sort(documented)
	if diff := cmp.Diff(declared, documented); diff != "" {
		t.Errorf("docs/reference/events.md lacks a code or has one too many (-declared +documented):\n%s", diff)
	}
}

func codes(t *testing.T, file, pattern string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	return found
}

func TestSeverityAtLeast(t *testing.T) {
	order := []Severity{Note, Warning, Serious}
	for i, s := range order {
		for j, other := range order {
			if got := s.AtLeast(other); got != (i >= j) {
				t.Errorf("%s at least %s: %v", s, other, got)
			}
		}
	}
}
