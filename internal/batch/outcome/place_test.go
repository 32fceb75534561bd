package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShapeRefuses(t *testing.T) {
	for _, test := range []struct {
		path  string
		shape Shape
		want  string
	}{
		{"-", Shape{}, "name a file"},
		{"out.parquet", Shape{}, "cannot write .parquet"},
		{"out.TSV.gz", Shape{}, "cannot write .tsv"},
		{"out.jsonl.bz2", Shape{Format: JSONL}, "cannot write .bz2"},
		{"out.jsonl", Shape{Columns: []string{"a"}}, "only a CSV has columns"},
		{"out.csv", Shape{Columns: []string{"a", "b", "a"}}, "the column a is named twice"},
		{"out.csv", Shape{Columns: []string{"a", "_error"}}, "leave it out"},
	} {
		if _, err := test.shape.settled(test.path); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, %+v: %v, want something about %q", test.path, test.shape, err, test.want)
		}
	}
	if s, err := (Shape{Format: CSV}).settled("out.tsv"); err != nil || s.Format != CSV {
		t.Errorf("a format that is named: %+v, %v", s, err)
	}
}

// An output that is replaced keeps who may read it, also while the new one is
// written, and a link to it stays one.
func TestReplacedOutputKeepsItsNature(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("out.jsonl", link); err != nil {
		t.Fatal(err)
	}
	l := begin(t, link, Shape{Ordered: true}, true)
	for i := range int64(3) {
		if err := l.Commit([]Outcome{result(2 - i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{logName, journalName} {
		if stat, err := os.Stat(filepath.Join(Dir(path), name)); err != nil || stat.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, stat.Mode(), err)
		}
	}
	finish(t, l, 3)
	if stat, err := os.Lstat(link); err != nil || stat.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 || stat.Size() < 10 {
		t.Errorf("%v, %v", stat, err)
	}
}

func TestSpool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	p, err := Claim(path, Shape{}, false)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := p.Spool(t.Context(), strings.NewReader("1\n2\n"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Begin(nil, json.RawMessage(input), same)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if p, err = Claim(path, Shape{}, false); err != nil {
		t.Fatal(err)
	}
	again, err := p.Spool(t.Context(), strings.NewReader("something else"))
	if err != nil || again != kept {
		t.Fatalf("Spool = %s, %v, want %s", again, err, kept)
	}
	if data, _ := os.ReadFile(again); string(data) != "1\n2\n" {
		t.Errorf("kept %q", data)
	}
	if l, err = p.Begin(nil, json.RawMessage(input), same); err != nil {
		t.Fatal(err)
	}
	finish(t, l, 0)
	if _, err := os.Stat(Dir(path)); err == nil {
		t.Error("the folder is still there")
	}
}

// A stream that is being kept can be interrupted, and what came of it is not
// wiped by the next run.
func TestSpoolIsInterrupted(t *testing.T) {
	for _, sent := range []string{"", "1\n"} {
		path := filepath.Join(t.TempDir(), "out.jsonl")
		p, err := Claim(path, Shape{}, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		stream, writer := io.Pipe()
		go func() {
			_, _ = writer.Write([]byte(sent))
			_, _ = writer.Write(nil) // the first one was taken
			cancel()
		}()
		if _, err := p.Spool(ctx, stream); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		_ = writer.Close()
		if _, err := os.Stat(Dir(path)); (err == nil) != (sent != "") {
			t.Errorf("after %q: %v", sent, err)
		}
		p, err = Claim(path, Shape{}, false)
		if sent == "" && err != nil || sent != "" && !errors.Is(err, ErrGone) {
			t.Fatalf("after %q: %v", sent, err)
		}
		if sent != "" {
			if p, err = Claim(path, Shape{}, true); err != nil { // unless that is meant
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
