package term

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	cut := Table{Columns: []Column{{Title: "NAME", Least: 4}, {Title: "N", Right: true}, {Title: "WHY", Least: 3}}}
	cut.Add(Text("a long name"), Cell{"10", Red}, Text("a reason"), Text("there is no column for this"))
	cut.Add(Text("模擬"), Text("5"))
	fold := Table{Indent: 2, Columns: []Column{{Title: "STEP", Least: 4, Fold: true}, {Title: "IN→OUT", Least: 6, Fold: true}}}
	fold.Add(Text("measure_all"), Text("numpy→torch"))
	for _, c := range []struct {
		table *Table
		width int
		want  string
		fits  bool
	}{
		{&cut, 80, "NAME          N  WHY\na long name  10  a reason\n模擬          5", true},
		{&cut, 18, "NAME   N  WHY\na l…  10  a reason\n模擬   5", true},
		{&cut, 10, "NAME   N  WHY\na l…  10  a …\n模擬   5", false},
		{&fold, 80, "  STEP         IN→OUT\n  measure_all  numpy→torch", true},
		{&fold, 21, "  STEP         IN→OUT\n  measure_all  numpy→\n               torch", true},
		{&fold, 18, "  STEP      IN→OUT\n  measure_  numpy→\n  all       torch", true},
	} {
		if diff := cmp.Diff(c.want, strings.Join(c.table.Lines(c.width, false), "\n")); diff != "" || c.table.Fits(c.width) != c.fits {
			t.Errorf("%d columns, fits %t (-want +got):\n%s", c.width, c.table.Fits(c.width), diff)
		}
	}
	painted := cut.Lines(80, true)
	if want := "\x1b[2mNAME\x1b[0m"; !strings.HasPrefix(painted[0], want) || !strings.Contains(painted[1], "\x1b[31m10\x1b[0m") {
		t.Errorf("painted %q", painted)
	}
}
