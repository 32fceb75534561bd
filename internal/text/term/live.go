package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Live keeps lines at the bottom of a terminal and draws them again and again.
// The cursor stays at the end of a single line, and below several. The caller
// makes sure that no line is as wide as the terminal, that there are fewer lines
// than it has, and that only one goroutine at a time calls Live.
type Live struct {
	out   io.Writer
	drawn []string
}

// NewLive returns a Live that has drawn nothing yet.
func NewLive(out io.Writer) *Live { return &Live{out: out} }

// Draw replaces the last lines by these. Without lines it removes the last ones. It
// reports no error, because the reader may be gone.
func (l *Live) Draw(lines ...string) {
	text := l.wipe()
	if len(lines) == 1 && len(l.drawn) <= 1 { // write over the line, so that it does not flicker
		text = "\r" + lines[0] + "\x1b[K"
	} else {
		text += block(lines)
	}
	l.drawn = lines
	if text != "" {
		_, _ = io.WriteString(l.out, text)
	}
}

// Write writes whole lines above the drawn ones.
func (l *Live) Write(text []byte) (int, error) {
	_, err := io.WriteString(l.out, l.wipe()+string(text)+block(l.drawn))
	return len(text), err
}

// Above writes whole lines to another writer, which may be on the same terminal,
// and draws new lines below them.
func (l *Live) Above(to io.Writer, text []byte, lines ...string) error {
	if wipe := l.wipe(); wipe != "" {
		_, _ = io.WriteString(l.out, wipe)
	}
	_, err := to.Write(text)
	if l.drawn = lines; len(lines) > 0 {
		_, _ = io.WriteString(l.out, block(lines))
	}
	return err
}

// wipe returns the codes that move the cursor to the first line and clear from there.
func (l *Live) wipe() string {
	switch n := len(l.drawn); n {
	case 0:
		return ""
	case 1:
		return "\r\x1b[K"
	default:
		return fmt.Sprintf("\x1b[%dA\r\x1b[J", n)
	}
}

func block(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// Page returns the text that shows lines from the top of a terminal, each over the old
// one so that nothing flickers. The first page clears the terminal.
func Page(lines []string, first bool) string {
	const home, clear, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	var b strings.Builder
	if first {
		b.WriteString(clear)
	}
	b.WriteString(home)
	for _, line := range strings.Split(strings.Join(lines, "\n"), "\n") {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.String()
}

// LineWriter collects what is written and passes it on line by line.
type LineWriter struct {
	pass func(line []byte) // line has no newline
	rest []byte            // the beginning of an incomplete line
}

// NewLineWriter returns a writer that calls pass for every line.
func NewLineWriter(pass func(line []byte)) *LineWriter { return &LineWriter{pass: pass} }

// LongestLine is the number of bytes of a line that LineWriter collects before it passes
// them on incomplete.
const LongestLine = 64 << 10

func (w *LineWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		end := bytes.IndexByte(w.rest, '\n') + 1
		if end == 0 && len(w.rest) < LongestLine {
			return len(text), nil
		}
		if end == 0 {
			end = len(w.rest)
		}
		w.pass(bytes.TrimRight(w.rest[:end], "\r\n"))
		w.rest = w.rest[end:]
	}
}

// Flush passes on a last line without a newline.
func (w *LineWriter) Flush() {
	if len(w.rest) > 0 {
		w.pass(bytes.TrimRight(w.rest, "\r\n"))
		w.rest = nil
	}
}
