package programs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplaced(t *testing.T) {
	got := replaced([]string{"A=1", "AB=2", "C=3", "D=4"}, "A=x", "C", "E=5")
	if diff := cmp.Diff([]string{"AB=2", "D=4", "A=x", "E=5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
