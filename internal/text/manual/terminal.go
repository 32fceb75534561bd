package manual

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"github.com/berth-gpu/berth/internal/text/term"
)

// Lines returns a page as lines for a terminal. Headings stand at the edge, and what is
// below them is indented. What is typed as it stands is in bold, or between backticks where
// there are no colours. A link names its topic.
func (m *Manual) Lines(t *Topic, to term.Screen) []string {
	const widest = 100 // longer lines are hard to read
	p := &printer{Manual: m, topic: t, Painter: to.Painter, width: min(to.Width, widest), named: map[string]bool{t.Name: true}}
	p.blocks(parse(t.source), "")
	return p.lines
}

// printer writes one page.
type printer struct {
	*Manual
	term.Painter
	topic *Topic
	width int
	named map[string]bool // topics that a link has named already
	lines []string
}

const indent = "  "

// blocks writes what is in a node, with a margin before every line.
func (p *printer) blocks(n ast.Node, margin string) {
	for one := n.FirstChild(); one != nil; one = one.NextSibling() {
		switch one := one.(type) {
		case *ast.Heading:
			p.gap()
			p.lines = append(p.lines, p.Paint(term.Bold, plain(one, p.topic.source)))
			continue
		case *ast.List:
			p.list(one, margin)
			continue
		}
		p.gap()
		inside := margin
		if n.Kind() == ast.KindDocument {
			inside += indent
		}
		switch one := one.(type) {
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for line := range strings.Lines(string(one.Lines().Value(p.topic.source))) {
				line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
				p.lines = append(p.lines, strings.TrimRight(inside+indent+line, " "))
			}
		case *ast.Blockquote:
			p.blocks(one, inside+indent)
		case *tables.Table:
			p.table(one, inside)
		case *ast.ThematicBreak:
		default:
			p.paragraph(one, inside, inside)
		}
	}
}

// gap writes an empty line unless there is one.
func (p *printer) gap() {
	if last := len(p.lines) - 1; last >= 0 && p.lines[last] != "" {
		p.lines = append(p.lines, "")
	}
}

// list writes the items of a list, with a mark or a number each.
func (p *printer) list(list *ast.List, margin string) {
	if list.Parent().Kind() == ast.KindDocument {
		p.gap()
		margin += indent
	}
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		inside := margin + strings.Repeat(" ", len(mark))
		if first := item.FirstChild(); first != nil && (first.Kind() == ast.KindTextBlock || first.Kind() == ast.KindParagraph) {
			p.paragraph(first, margin+mark, inside)
			item.RemoveChild(item, first)
		}
		p.blocks(item, inside)
	}
}

// paragraph writes a text in lines that fit.
func (p *printer) paragraph(n ast.Node, lead, margin string) {
	for _, line := range term.Paragraph(lead, margin, p.inline(n), p.width) {
		p.lines = append(p.lines, paint(line, p.Painter))
	}
}

// table writes a table whose columns share the width.
func (p *printer) table(n *tables.Table, margin string) {
	t := term.Table{Indent: len(margin)}
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []term.Cell
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, term.Text(plain(cell, p.topic.source)))
		}
		if row.Kind() == tables.KindTableHeader {
			least := max(6, (p.width-len(margin))/len(cells)-2)
			for i, title := range cells {
				t.Columns = append(t.Columns, term.Column{Title: title.Text, Right: n.Alignments[i] == tables.AlignRight, Fold: true, Least: least})
			}
			continue
		}
		t.Add(cells...)
	}
	lines := t.Lines(p.width, p.Painter)
	if strings.TrimSpace(lines[0]) == "" { // a table without titles
		lines = lines[1:]
	}
	p.lines = append(p.lines, lines...)
}

// In a text, these stand for bold writing on and off. They take no column.
const on, off = "\x01", "\x02"

// paint writes a line in bold where it says so.
func paint(line string, p term.Painter) string {
	if !p {
		return strings.NewReplacer(on, "", off, "").Replace(line)
	}
	return strings.NewReplacer(on, "\x1b["+string(term.Bold)+"m", off, "\x1b[0m").Replace(line)
}

// inline returns the text of a paragraph. Each word in bold has its marks, because a line
// may end after it.
func (p *printer) inline(n ast.Node) string {
	var b strings.Builder
	bold := func(text string) {
		for i, word := range strings.Fields(text) {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(on + word + off)
		}
	}
	for one := n.FirstChild(); one != nil; one = one.NextSibling() {
		switch one := one.(type) {
		case *ast.Text:
			b.Write(util.UnescapePunctuations(one.Value(p.topic.source)))
			if one.SoftLineBreak() || one.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeSpan:
			if p.Painter {
				bold(plain(one, p.topic.source))
			} else {
				b.WriteString("`" + plain(one, p.topic.source) + "`")
			}
		case *ast.Emphasis:
			bold(plain(one, p.topic.source))
		case *ast.Link:
			b.WriteString(p.link(one))
		case *ast.Image:
			b.WriteString("[picture: " + plain(one, p.topic.source) + "]")
		case *ast.AutoLink:
			b.Write(one.URL(p.topic.source))
		default:
			b.WriteString(p.inline(one))
		}
	}
	return b.String()
}

// link returns the text of a link, and where it leads: each topic once. A text that is the
// name of a file would lead nobody.
func (p *printer) link(link *ast.Link) string {
	text, to := p.inline(link), p.follow(p.topic, string(link.Destination))
	switch {
	case to.topic != nil && strings.HasSuffix(text, ".md"):
		p.named[to.topic.Name] = true
		return "berth help " + to.topic.Name
	case to.topic != nil && !p.named[to.topic.Name]:
		p.named[to.topic.Name] = true
		return text + " (berth help " + to.topic.Name + ")"
	case strings.HasPrefix(to.address, repository):
		return text + " (" + strings.TrimPrefix(to.address, repository) + ")"
	case to.address != "":
		return text + " <" + to.address + ">"
	}
	return text
}
