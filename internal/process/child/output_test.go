package child_test

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/process/child"
)

func TestHead(t *testing.T) {
	for want, written := range map[string][]string{
		"":                    nil,
		"abc":                 {" a", "bc\n"},
		"abcdefgh":            {"abcd", "efgh"},
		"abcdefgh … and more": {"abcd", "efghi", "jkl"},
		"a\uFFFD":             {"a\xff"},
	} {
		h := child.Head{Limit: 8}
		for _, text := range written {
			if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("Write(%q) = %d, %v", text, n, err)
			}
		}
		if got := h.String(); got != want {
			t.Errorf("of %q it keeps %q, want %q", written, got, want)
		}
	}
}

func TestHeadIsBounded(t *testing.T) {
	const most = 4 << 10
	h := child.Head{Limit: most}
	for range 10 {
		if n, err := h.Write([]byte(strings.Repeat("x", most-1))); n != most-1 || err != nil {
			t.Fatalf("it took %d, %v", n, err)
		}
	}
	if kept := strings.Count(h.String(), "x"); kept != most {
		t.Errorf("it kept %d bytes", kept)
	}
}

func TestTail(t *testing.T) {
	for want, written := range map[string][]string{
		"":         nil,
		"b | c":    {"a\nb", "\nc\n"},
		"89":       {"0123456789\n9", "\n78\n89\n"}, // the limit cuts within 78
		"abcdefgh": {"a long line that ends with abcdefgh"},
		"?":        {"\xff"},
	} {
		tail := child.Tail{Limit: 8}
		if want == "89" {
			tail.Limit = 4
		}
		for _, text := range written {
			if n, err := tail.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("Write(%q) = %d, %v", text, n, err)
			}
		}
		if got := strings.Join(tail.Lines(2), " | "); got != want {
			t.Errorf("of %q it keeps %q, want %q", written, got, want)
		}
	}
}
