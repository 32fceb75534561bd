package term

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written stands above the lines that are drawn, whole, and these go
// away at the end.
func TestLive(t *testing.T) {
	var out, other bytes.Buffer
	l := NewLive(&out)
	said := func(want string) {
		t.Helper()
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
		out.Reset()
	}
	l.Draw()
	said("")
	_, _ = l.Write([]byte("hello\n"))
	said("hello\n")
	l.Draw("one")
	said("\rone\x1b[K")
	l.Draw("two")
	said("\rtwo\x1b[K")
	_, _ = l.Write([]byte("hello\n"))
	said("\r\x1b[Khello\ntwo")
	l.Draw("a", "b")
	said("\r\x1b[Ka\nb\n")
	_, _ = l.Write([]byte("hello\n"))
	said("\x1b[2A\r\x1b[Jhello\na\nb\n")
	_ = l.Above(&other, []byte("elsewhere\n"), "one")
	said("\x1b[2A\r\x1b[Jone")
	l.Draw()
	said("\r\x1b[K")
	if other.String() != "elsewhere\n" {
		t.Errorf("the other writer has %q", other.String())
	}
}

func TestLineWriter(t *testing.T) {
	long := strings.Repeat("x", LongestLine)
	for name, c := range map[string]struct {
		written []string
		want    []string
	}{
		"whole lines":      {[]string{"a\nb\n"}, []string{"a", "b"}},
		"in pieces":        {[]string{"a", "b\nc", "d"}, []string{"ab", "cd"}},
		"empty lines":      {[]string{"\n\n"}, []string{"", ""}},
		"carriage returns": {[]string{"a\r\n"}, []string{"a"}},
		"without an end":   {[]string{long, "y"}, []string{long, "y"}},
		"nothing":          {nil, nil},
	} {
		var got []string
		w := NewLineWriter(func(line []byte) { got = append(got, string(line)) })
		for _, text := range c.written {
			if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		w.Flush()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
