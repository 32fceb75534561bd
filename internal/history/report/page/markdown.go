package page

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Markdown writes a report with a period as Markdown. Its pictures are text, so that a
// mail can carry them.
func Markdown(w io.Writer, r *api.Report) error {
	d, b := newDocument(r), bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n%s\n", d.Title, escape(d.About))
	for _, remark := range d.Remarks {
		fmt.Fprintf(b, "\n> %s\n", escape(remark))
	}
	fmt.Fprint(b, "\n")
	for _, f := range d.Figures {
		fmt.Fprintf(b, "- %s: **%s**", escape(f.Name), escape(f.Value))
		if f.Note != "" {
			fmt.Fprintf(b, " (%s)", escape(f.Note))
		}
		fmt.Fprint(b, "\n")
	}
	for _, s := range d.Sections {
		fmt.Fprintf(b, "\n## %s\n", escape(s.Title))
		if s.Text != "" {
			fmt.Fprintf(b, "\n%s\n", escape(s.Text))
		}
		for _, each := range s.Blocks {
			writeBlock(b, &each)
		}
	}
	return b.Flush()
}

func writeBlock(b *bufio.Writer, each *block) {
	fmt.Fprintf(b, "\n### %s\n\n", escape(each.Title))
	if len(each.Text) > 0 {
		fmt.Fprint(b, "```text\n")
		for _, line := range each.Text {
			fmt.Fprintln(b, strings.TrimRight(strings.ReplaceAll(line, "```", "'''"), " "))
		}
		fmt.Fprint(b, "```\n")
	}
	if each.Table != nil {
		writeTable(b, each.Table)
	}
	for _, a := range each.List {
		fmt.Fprintf(b, "- %s", escape(a.Text))
		if a.Command != "" {
			fmt.Fprintf(b, " Next: `%s`", strings.ReplaceAll(term.Clean(a.Command), "`", "'"))
		}
		fmt.Fprint(b, "\n")
	}
}

func writeTable(b *bufio.Writer, t *table) {
	row := func(write func(i int) string) {
		for i, c := range t.Columns {
			if c.Title != "" { // a column of pictures
				fmt.Fprintf(b, "| %s ", write(i))
			}
		}
		fmt.Fprint(b, "|\n")
	}
	row(func(i int) string { return escape(t.Columns[i].Title) })
	row(func(i int) string { return map[bool]string{true: "---:", false: "---"}[t.Columns[i].Right] })
	for _, cells := range t.Rows {
		row(func(i int) string { return escape(cells[i].Text) })
	}
	if t.More != "" {
		fmt.Fprintf(b, "\n%s\n", escape(t.More))
	}
}

// escape makes untrusted text safe inside a line of Markdown.
func escape(text string) string {
	return escaped.Replace(term.Clean(text))
}

var escaped = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `|`, `\|`, `#`, `\#`, `~`, `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;")
