package jobs

import (
	"io"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// What a program of somebody else has printed cannot command the terminal of its reader.
func TestLogsOfOthersDoNotCommandTheTerminal(t *testing.T) {
	const printed = "\x1b]0;pwned\a\x1b[31mté\u009bxt\tend\r\n\u202eabc\xff"
	for _, c := range []struct {
		own, screen bool
		want        string
	}{{false, true, "?]0;pwned??[31mté?xt\tend\r\n?abc\ufffd"}, {true, true, printed}, {false, false, printed}} {
		r := &logReader{Console: &console.Console{Env: console.Env{Terminal: func() (int, bool) { return 80, c.screen }}}}
		var out strings.Builder
		err := r.pass(&out, c.own, func(to io.Writer) error {
			for i := range len(printed) { // as it may come
				if _, err := io.WriteString(to, printed[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || out.String() != c.want {
			t.Errorf("own %v, on a screen %v: %q, %v", c.own, c.screen, out.String(), err)
		}
	}
}
