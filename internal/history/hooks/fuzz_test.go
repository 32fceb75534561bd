package hooks

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever is in the file, a daemon starts with it, and what it recalls is
// delivered to the end.
func FuzzRecall(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"hooks":{"pager":{"current":{"id":3,"time":"2026-01-02T03:04:05Z","code":"critical","severity":"critical","text":"hot","data":{"a":1e400}},"events":[{"id":4},{"id":4},{"id":1}],"lost":{"events":2,"warnings":1,"first":1}}}}`,
		`{"version":1,"hooks":{"pager":{"lost":{"events":-5,"warnings":9,"first":18446744073709551615},"events":[null,{}]}}}`, `{"version":1,"hooks":{"pager":null}}`, `null`, `{}`, ``, `{"version":1}x`,
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "hooks.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		w := newWaiting(16, 1, func() {}, func() {})
		if newState(path).Read(func(d document) error { w.recall(d.Hooks["pager"]); return nil }) != nil {
			return
		}
		// What is left can be kept and read again.
		before := w.left()
		for n := 0; ; n++ {
			_, more := w.take()
			if !more {
				break
			}
			if w.settle(); n > 3*len(before.Events)+3 {
				t.Fatalf("%q is delivered without end", text)
			}
		}
		if rest := w.left(); !rest.empty() {
			t.Errorf("%+v is left of %q", rest, text)
		}
	})
}
