package work

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// TestRunScreen: what workers print stands above the block, whole, and the
// block goes away at the end.
func TestRunScreen(t *testing.T) {
	var err bytes.Buffer
	s := newRunScreen(t.Context(), &console.Console{Env: console.Env{Err: &err}})
	s.draw([]string{"one", "two"})
	s.say("hello %d", 1)
	s.notify(batch.Event{Code: batch.EventReady, Text: "not told"})
	s.notify(batch.Event{Code: batch.EventFailed, Worker: "worker 1", Text: "died\x1b[2J"})
	s.draw(nil)
	const wipe = "\x1b[2A\r\x1b[J"
	want := strings.Join([]string{
		"one\ntwo\n", "berth: hello 1\none\ntwo\n", "berth: worker 1 on GPU 0: died?[2J\none\ntwo\n", "",
	}, wipe)
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Error(diff)
	}
}
