package outcome

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPipe(t *testing.T) {
	var out strings.Builder
	p, err := NewPipe(&out, Shape{})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range [][]Outcome{{result(2), result(0)}, nil, {Failure(1, []byte("7"), "bad")}} {
		if err := p.Commit(group); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(result(2).Data) + "\n" + string(result(0).Data) + "\n" + `{"_input":7,"_error":"bad"}` + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if done, failed := p.Counts(); done != 3 || failed != 1 {
		t.Errorf("%d done, %d failed", done, failed)
	}
	if err := p.Finish(4); err == nil {
		t.Error("a record has no outcome, and nobody notices")
	}
	if err := p.Commit([]Outcome{result(2)}); err == nil {
		t.Error("a record has two outcomes, and nobody notices")
	}
	if err := errors.Join(p.Finish(3), p.Close()); err != nil {
		t.Error(err)
	}
}

func TestPipeWithNumbers(t *testing.T) {
	var out strings.Builder
	p, err := NewPipe(&out, Shape{Format: Numbered})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Commit([]Outcome{Success(12, []byte(`{"a":1}`)), Failure(0, []byte("7"), "bad")}); err != nil {
		t.Fatal(err)
	}
	if want := `[12,{"a":1}]` + "\n" + `[0,{"_input":7,"_error":"bad"}]` + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestPipeThatNobodyReads(t *testing.T) {
	read, write := io.Pipe()
	_ = read.Close()
	p, _ := NewPipe(write, Shape{})
	var failed *WriteError
	if err := p.Commit([]Outcome{result(0)}); !errors.As(err, &failed) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func TestPipeRefusesWhatNeedsAFile(t *testing.T) {
	for _, shape := range []Shape{{Ordered: true}, {Format: CSV}, {Columns: []string{"id"}}, {Packing: Gzip}} {
		if _, err := NewPipe(io.Discard, shape); !errors.Is(err, ErrShape) {
			t.Errorf("%+v: %v, want %v", shape, err, ErrShape)
		}
	}
}
