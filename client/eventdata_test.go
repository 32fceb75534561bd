package client

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEventData(t *testing.T) {
	for _, c := range []struct{ name, stream, want string }{
		{"one", "id: 1\nevent: e\ndata: a\n\n", "a"},
		{"two", "data: a\n\ndata: b\n\n", "a|b"},
		{"no space", "data:a\n\n", "a"},
		{"only one space goes", "data:  a\n\n", " a"},
		{"several lines", "data: a\ndata: b\n\n", "a\nb"},
		{"line ends of Windows", "data: a\r\n\r\n", "a"},
		{"comment", ": here\n\ndata: a\n\n", "a"},
		{"unknown field", "retry: 5\nfoo\ndata: a\n\n", "a"},
		{"no data", "id: 7\n\n", ""},
		{"cut off", "data: a\n\ndata: b\n", "a"},
	} {
		var got []string
		for f, err := range messages(strings.NewReader(c.stream)) {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			got = append(got, string(f.data))
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
}

// A message without data says how far the stream has come.
func TestFramesHaveIDs(t *testing.T) {
	var got []uint64
	for f, err := range messages(strings.NewReader("id: 7\ndata: a\n\nid: 9\n\nid: x\n\n: here\n\n")) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, f.id)
	}
	if want := []uint64{7, 9}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Wherever a connection breaks, whole events are given and none that is cut.
func TestEventDataOfABrokenStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOf(rapid.StringMatching(`\{[a-z:" ]{0,9}\}`)).Draw(t, "events")
		var stream strings.Builder
		var ends []int
		for i, e := range events {
			fmt.Fprintf(&stream, "id: %d\ndata: %s\n\n", i, e)
			ends = append(ends, stream.Len())
		}
		cut := rapid.IntRange(0, stream.Len()).Draw(t, "cut")
		whole, _ := slices.BinarySearch(ends, cut+1)
		reset := errors.New("reset")
		broken := io.MultiReader(strings.NewReader(stream.String()[:cut]), failing{reset})
		var got []string
		var last error
		for f, err := range messages(broken) {
			if last = err; err == nil {
				got = append(got, string(f.data))
			}
		}
		if !slices.Equal(got, events[:whole]) || !errors.Is(last, reset) {
			t.Fatalf("got %q and %v, want %q", got, last, events[:whole])
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
