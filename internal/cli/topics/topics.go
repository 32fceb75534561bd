// Package topics shows the manual in a terminal: one topic, or the list of them.
package topics

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
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

// In returns the function that shows a topic of the manual in a folder, the list of topics,
// or what answers a question.
func In(folder fs.FS) func(con *console.Console, asked console.Question) error {
	return func(con *console.Console, asked console.Question) error {
		m, err := manual.Read(folder)
		if err != nil {
			return err
		}
		return answer(con, m, asked)
	}
}

func answer(con *console.Console, m *manual.Manual, asked console.Question) error {
	topic := m.Topic(asked.Words)
	switch {
	case asked.Words == List && con.JSON:
		return con.PrintJSON(m.Topics)
	case asked.Words == List:
		return show(con, list(m, con.Screen()))
	case topic == nil && (asked.Answer != "" || len(asked.See) > 0):
		return tell(con, m, asked)
	case topic == nil:
		return unknown(m, asked)
	case con.JSON:
		return con.PrintJSON(page{topic, topic.Text()})
	}
	return show(con, m.Lines(topic, con.Screen()))
}

// seen is a command or a topic that tells of what was asked.
type seen struct {
	Help string `json:"help"` // as in berth help NAME
	Line string `json:"line"` // what the command does, or what the topic is about
}

// tell says where the words are explained that were asked for, and what berth lacks of them.
func tell(con *console.Console, m *manual.Manual, asked console.Question) error {
	told := struct {
		Words  string `json:"words"`
		Answer string `json:"answer,omitempty"`
		See    []seen `json:"see"`
	}{Words: asked.Words, Answer: asked.Answer, See: []seen{}}
	width := 0
	for _, name := range asked.See {
		if line, is := asked.Commands[name]; is {
			told.See = append(told.See, seen{name, line})
		} else if topic := m.Topic(name); topic != nil {
			told.See = append(told.See, seen{name, topic.Line})
		} else {
			continue // this program does not have the command
		}
		width = max(width, len(name))
	}
	if con.JSON {
		return con.PrintJSON(told)
	}
	to := con.Screen()
	var lines []string
	if told.Answer != "" {
		lines = append(lines, to.Hang(term.Plain, "", told.Answer))
	}
	if told.Answer != "" && len(told.See) > 0 {
		lines = append(lines, "")
	}
	for _, s := range told.See {
		lines = append(lines, to.Hang(term.Bold, fmt.Sprintf("berth help %-*s  ", width, s.Help), s.Line))
	}
	return con.Print(lines...)
}

// unknown says which topic or command was probably meant.
func unknown(m *manual.Manual, asked console.Question) error {
	err := console.Usage("there is no command and no topic %q", words.Cut(asked.Words, words.MaxText))
	if near, ok := words.Nearest(asked.Words, slices.Sorted(maps.Keys(asked.Commands))); ok {
		return console.Hinted(err, "did you mean berth help "+near+"?")
	}
	if near := m.Near(asked.Words); len(near) > 0 {
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
