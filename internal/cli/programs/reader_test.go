package programs

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
)

func TestReaderThatLeaves(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := watchReader(write, cancel)
	_ = read.Close()
	<-ctx.Done()
	stop()
	if !errors.Is(context.Cause(ctx), ErrReaderLeft) {
		t.Errorf("%v, want %v", context.Cause(ctx), ErrReaderLeft)
	}
}

func TestReaderThatStays(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, to := range []io.Writer{write, file, io.Discard, nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		watchReader(to, cancel)()
		if ctx.Err() != nil {
			t.Errorf("%v: %v", to, context.Cause(ctx))
		}
		cancel(nil)
	}
}
