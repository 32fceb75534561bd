package worker

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/berth-gpu/berth/internal/process/child"
)

// sharedLog lets several workers print to one writer, line by line.
type sharedLog struct {
	mu sync.Mutex
	to io.Writer
}

// output passes on what a worker prints, and keeps the last lines, because a traceback
// ends with the error.
type output struct {
	prefix string
	to     *sharedLog

	mu   sync.Mutex
	line []byte // line that has no end yet
	tail child.Tail
}

func newOutput(prefix string, to *sharedLog) *output {
	return &output{prefix: prefix, to: to, tail: child.Tail{Limit: tailBytes}}
}

const (
	lineBytes = 8 << 10
	tailBytes = 2 << 10
)

func (w *output) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, text...)
	for {
		at := bytes.IndexByte(w.line, '\n')
		if at < 0 {
			w.line = append(w.line[:0], shown(w.line)...)
		}
		if at < 0 && len(w.line) < lineBytes {
			return len(text), nil
		}
		if at < 0 {
			at = len(w.line) - 1
		}
		w.pass(w.line[:at+1])
		w.line = append(w.line[:0], w.line[at+1:]...)
	}
}

// shown returns the part of a line that a terminal shows in the end: a progress
// bar overwrites itself, with a carriage return before or after.
func shown(line []byte) []byte {
	end := bytes.TrimRight(line, "\r\n")
	return line[bytes.LastIndexByte(end, '\r')+1:]
}

// escape matches a command to a terminal, such as one that sets a colour or clears the
// screen. It is compiled when needed, because otherwise every command would wait for it.
var escape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -~])`)
})

// printable returns a line without the commands that a terminal would obey.
func printable(line []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, bytes.ToValidUTF8(escape().ReplaceAll(line, nil), []byte("?")))
}

// flush prints a line that has no end yet.
func (w *output) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.pass(w.line)
		w.line = nil
	}
}

// pass prints a line. If the log fails, pass drops the line: the run matters more.
func (w *output) pass(line []byte) {
	line = printable(shown(line))
	line = append(line, '\n')
	_, _ = w.tail.Write(line) // never fails
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	_, _ = w.to.to.Write(append([]byte(w.prefix), line...))
}

// last returns the last few lines as one line.
func (w *output) last() string {
	const most = 3
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.tail.Lines(most)
	if begun := strings.TrimSpace(string(printable(shown(w.line)))); begun != "" {
		lines = append(lines, begun)
	}
	return strings.Join(lines[max(0, len(lines)-most):], " | ")
}
