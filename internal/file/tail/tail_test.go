package tail

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeek(t *testing.T) {
	long := strings.Repeat("x", block-1) + "\n"
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"", 3, ""}, {"a\n", 1, "a\n"}, {"a", 1, "a"}, {"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\n", 9, "a\nb\n"},
		{"\n\n\n", 2, "\n\n"}, {long + long + "a\n", 2, long + "a\n"}, {long + "b" + long, 1, "b" + long}, {long + long, 2, long + long},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Seek(f, c.lines); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || string(got) != c.want {
			t.Errorf("the last %d lines of %.20q are %.20q (%v), want %.20q", c.lines, c.text, got, err, c.want)
		}
		_ = f.Close()
	}
}
