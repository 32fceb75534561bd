package query

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/reference/limits.md has the limits of a query as they are.
func TestThePageHasTheLimits(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	l := Default()
	for _, row := range []string{
		fmt.Sprintf("| points of a series in an answer | %d,000,", l.Points/1000),
		fmt.Sprintf("| samples in memory at once | %d million |", l.Samples/1_000_000),
		fmt.Sprintf("| series that a query reads | %d,000 |", l.Series/1000),
		fmt.Sprintf("| series times steps | %d million:", l.Cells/1_000_000),
		fmt.Sprintf("| samples that a function looks at, for each series | %d million,", l.Work/1_000_000),
		fmt.Sprintf("| steps of a subquery | %d,000.", l.Steps/1000),
		fmt.Sprintf("| labels that a query builds | %d MB,", l.Labels/1_000_000),
		fmt.Sprintf("| time of a query, waiting for a place included | %d s,", int(l.Time.Seconds())),
		fmt.Sprintf("| length of an expression | %d,000 bytes |", l.Length/1000),
		fmt.Sprintf("| selectors in an expression | %d |", l.Selectors),
		fmt.Sprintf("| regular expressions in an expression | about %d,000 steps", l.Pattern/1000),
		fmt.Sprintf("| queries that are answered at once | %d,", l.AtOnce),
	} {
		if !strings.Contains(string(page), "\n"+row) {
			t.Errorf("docs/reference/limits.md does not have %q", row)
		}
	}
}
