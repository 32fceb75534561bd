package tail

import (
	"strings"
	"testing"
)

func TestStart(t *testing.T) {
	long := strings.Repeat("x", block-1) + "\n"
	for _, c := range []struct {
		text  string
		first int64
		lines int
		want  string
	}{
		{"", 0, 3, ""}, {"a\n", 0, 1, "a\n"}, {"a", 0, 1, "a"}, {"a\nb\nc\n", 0, 2, "b\nc\n"}, {"a\nb\nc", 0, 2, "b\nc"}, {"a\nb\n", 0, 9, "a\nb\n"},
		{"\n\n\n", 0, 2, "\n\n"}, {long + long + "a\n", 0, 2, long + "a\n"}, {long + "b" + long, 0, 1, "b" + long}, {long + long, 0, 2, long + long},
		{"abc\nd\n", 2, 2, "c\nd\n"}, {"abc\nd\n", 4, 9, "d\n"}, {"abc\nd\n", 2, 1, "d\n"},
	} {
		at, err := Start(strings.NewReader(c.text), c.first, int64(len(c.text)), c.lines)
		if err != nil || c.text[at:] != c.want {
			t.Errorf("the last %d lines of %.20q are %.20q (%v), want %.20q", c.lines, c.text, c.text[at:], err, c.want)
		}
	}
}
