package words

import (
	"strings"
	"testing"
	"time"
)

func TestProblems(t *testing.T) {
	for what, c := range map[string]struct{ got, want string }{
		"a number":              {NumberProblem(3, 0, 3), ""},
		"a number too small":    {NumberProblem(-1, 0, 3), "is -1; it must be from 0 to 3"},
		"a number too large":    {NumberProblem(4, 0, 3), "is 4; it must be from 0 to 3"},
		"a time":                {TimeProblem(time.Second, time.Second, time.Hour), ""},
		"a time too short":      {TimeProblem(time.Millisecond, time.Second, 48*time.Hour), "is 0.001; it must be from 1 to 172800 (2 days)"},
		"a name":                {NameProblem("pod1"), ""},
		"a path":                {NameProblem("/a/b"), `has a name with a slash, "/a/b"; give the name alone, without the path`},
		"names":                 {NamesProblem([]string{"a", "b"}, 2), ""},
		"too many names":        {NamesProblem([]string{"a", "b"}, 1), "has 2 names; at most 1 are allowed"},
		"a path among names":    {NamesProblem([]string{"a", "b/c"}, 2), `has a name with a slash, "b/c"; give the name alone, without the path`},
		"a number of seconds":   {Seconds(1500 * time.Millisecond), "1.5"},
		"a name with no letter": {NameProblem(""), TextProblem("")},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	if !strings.Contains(NameProblem(" a"), "space") {
		t.Errorf("a name with a space in front: %q", NameProblem(" a"))
	}
}
