// Package topics shows the manual in a terminal: one topic, or the list of them.
package topics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/manual"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// List is the word that stands for the list of topics.
const List = "topics"

// page is a topic with its text, for --json.
type page struct {
	*manual.Topic
	Text string `json:"text"`
}

// In returns the function that shows a topic of the manual in a folder, or the list. The
// commands are names that the user may have meant as well.
func In(folder fs.FS) func(con *console.Console, name string, commands []string) error {
	return func(con *console.Console, name string, commands []string) error {
		m, err := manual.Read(folder)
		if err != nil {
			return err
		}
		return answer(con, m, name, commands)
	}
}

func answer(con *console.Console, m *manual.Manual, name string, commands []string) error {
	topic := m.Topic(name)
	switch {
	case name == List && con.JSON:
		return con.PrintJSON(m.Topics)
	case name == List:
		return show(con, list(m, con.Screen()))
	case topic == nil:
		return unknown(m, name, commands)
	case con.JSON:
		return con.PrintJSON(page{topic, topic.Text()})
	}
	return show(con, m.Lines(topic, con.Screen()))
}

// unknown says which topic or command was probably meant.
func unknown(m *manual.Manual, name string, commands []string) error {
	err := console.Usage("there is no command and no topic %q", words.Cut(name, words.MaxText))
	if near, ok := words.Nearest(name, commands); ok {
		return console.Hinted(err, "did you mean berth help "+near+"?")
	}
	if near := m.Near(name); len(near) > 0 {
		return console.Hinted(err, "did you mean berth help "+words.Or(near)+"?")
	}
	return console.Hinted(err, "berth help "+List+" lists the topics, and berth --help the commands")
}

// list returns a line for each topic, in the parts of the manual.
func list(m *manual.Manual, to term.Screen) (lines []string) {
	lines = []string{to.Paint(term.Dim, "berth help TOPIC shows one of these, and berth help COMMAND shows a command.")}
	width := 0
	for _, t := range m.Topics {
		width = max(width, term.Columns(t.Name))
	}
	part := ""
	for _, t := range m.Topics {
		if t.Part != part {
			part = t.Part
			lines = append(lines, "", to.Paint(term.Bold, part))
		}
		lines = append(lines, to.Hang(term.Plain, "  "+t.Name+strings.Repeat(" ", width-term.Columns(t.Name)+2), t.Line))
	}
	return lines
}

// show prints lines, through a pager if they are for a terminal: the one that PAGER names,
// or less, which ends by itself if the lines fit. Without one they are printed as they are.
func show(con *console.Console, lines []string) error {
	if _, is := con.Terminal(); !is || con.Getenv("PAGER") == "cat" || con.Getenv("TERM") == "dumb" {
		return con.Print(lines...)
	}
	pager := exec.Command("less")
	if named := con.Getenv("PAGER"); named != "" {
		pager = exec.Command("sh", "-c", named)
	}
	pager.Env = os.Environ()
	if con.Getenv("LESS") == "" {
		pager.Env = append(pager.Env, "LESS=FRX", "LESSCHARSET=utf-8") // end if it fits, keep colours, keep the screen
	}
	pager.Stdin, pager.Stdout, pager.Stderr = strings.NewReader(strings.Join(lines, "\n")+"\n"), con.Out, con.Err
	err := pager.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended) && ended.ExitCode() == 127, errors.Is(err, exec.ErrNotFound):
		return con.Print(lines...)
	case errors.As(err, &ended):
		return nil // the user left it: the pager does not say that all was read
	}
	return fmt.Errorf("start the pager %s: %w", pager, err)
}
