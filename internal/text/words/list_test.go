package words

import (
	"strings"
	"testing"
)

func TestLists(t *testing.T) {
	for _, c := range []struct {
		list     []string
		and, few string
	}{
		{nil, "", ""},
		{[]string{"a"}, "a", "a"},
		{[]string{"a", "b"}, "a and b", "a, b"},
		{[]string{"a", "b", "c"}, "a, b and c", "a, b and 1 more"},
		{[]string{"a", "b", "c", "d", "e"}, "a, b, c, d and e", "a, b and 3 more"},
	} {
		if got := And(c.list); got != c.and {
			t.Errorf("And(%q) = %q, want %q", c.list, got, c.and)
		}
		if got, want := Or(c.list), strings.ReplaceAll(c.and, " and ", " or "); got != want {
			t.Errorf("Or(%q) = %q, want %q", c.list, got, want)
		}
		if got := Few(c.list, 2); got != c.few {
			t.Errorf("Few(%q, 2) = %q, want %q", c.list, got, c.few)
		}
	}
}
