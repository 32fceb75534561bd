// Package manual reads the pages of docs/ for the people who use berth: by topic, as lines
// of a terminal, as HTML, and by the words in them.
//
// The index of the pages, README.md, says which topics there are, in which order, and what
// each is about in one line. A topic is called like its file; names tells the exceptions.
//
// Pure: no clock, no I/O.
package manual

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/berth-gpu/berth/internal/text/words"
)

// names has the topics whose name is not that of their file: a command has that name, or
// another page does.
var names = map[string]string{
	"start/pipelines.md":   "start-pipelines",
	"start/services.md":    "start-services",
	"guide/agents.md":      "assistants",
	"guide/alerts.md":      "alerting",
	"guide/events.md":      "events-and-hooks",
	"guide/jobs.md":        "running-jobs",
	"guide/leases.md":      "leasing",
	"guide/services.md":    "running-services",
	"reference/access.md":  "roles",
	"reference/events.md":  "event-codes",
	"reference/journal.md": "journal-format",
	"develop/README.md":    "develop",
	"develop/front.md":     "develop-front",
	"develop/jobs.md":      "develop-jobs",
	"develop/page.md":      "develop-page",
	"develop/parking.md":   "develop-parking",
	"develop/services.md":  "develop-services",
}

// Topic is a page of the manual.
type Topic struct {
	Name  string `json:"topic"` // as in berth help NAME
	Part  string `json:"part"`  // the part of the manual: Start, Guide, Reference or Develop
	Title string `json:"title"` // as the index calls it
	Line  string `json:"line"`  // what it is about

	file   string // in the folder
	source []byte
}

// Text returns the page as it was written.
func (t *Topic) Text() string { return string(t.source) }

// Manual is all pages.
type Manual struct {
	Index  *Topic   // the page that leads to all others, which is no topic
	Topics []*Topic // in the order of the index

	files map[string]*Topic // all of them, by their files
}

// Read reads the manual in a folder. It fails if the index leads to a page that is not
// there, or if two pages have one name.
func Read(folder fs.FS) (*Manual, error) {
	m := &Manual{Index: &Topic{Name: "index", Title: "The manual of berth", Line: "all pages", file: "README.md"}, files: map[string]*Topic{}}
	if err := m.add(folder, m.Index); err != nil {
		return nil, err
	}
	var part string
	var failed error
	source := m.Index.source
	_ = ast.Walk(parse(source), func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch {
		case !entering:
		case n.Kind() == ast.KindHeading:
			part = plain(n, source)
		case n.Kind() == tables.KindTableRow:
			for link := range all[*ast.Link](n.FirstChild()) {
				file := string(link.Destination)
				t := &Topic{Name: nameOf(file), Part: part, Title: plain(link, source), Line: plain(n.LastChild(), source), file: file}
				if m.Topic(t.Name) != nil {
					failed = errors.Join(failed, fmt.Errorf("two pages are called %s: give %s another name", t.Name, file))
				}
				failed = errors.Join(failed, m.add(folder, t))
				m.Topics = append(m.Topics, t)
			}
		}
		return ast.WalkContinue, nil
	})
	return m, failed
}

func (m *Manual) add(folder fs.FS, t *Topic) (err error) {
	t.source, err = fs.ReadFile(folder, t.file)
	m.files[t.file] = t
	return err
}

// nameOf returns the topic of a file.
func nameOf(file string) string {
	if name, special := names[file]; special {
		return name
	}
	return strings.TrimSuffix(path.Base(file), ".md")
}

// Topic returns a topic by its name, or nil.
func (m *Manual) Topic(name string) *Topic {
	if at := slices.IndexFunc(m.Topics, func(t *Topic) bool { return t.Name == name }); at >= 0 {
		return m.Topics[at]
	}
	return nil
}

// Names returns the names of the topics.
func (m *Manual) Names() (names []string) {
	for _, t := range m.Topics {
		names = append(names, t.Name)
	}
	return names
}

// Near returns the names of the topics that a mistyped or vague word probably means: the
// nearest one, and those that tell most about the word. There may be none.
func (m *Manual) Near(word string) (found []string) {
	if near, ok := words.Nearest(word, m.Names()); ok {
		found = append(found, near)
	}
	const few = 4
	for _, s := range m.Words().Find(word) {
		if len(found) < few && m.Topic(s.Topic).Part != "Develop" && !slices.Contains(found, s.Topic) {
			found = append(found, s.Topic)
		}
	}
	return found
}

// target is where a link of a page leads: to a topic, to a picture, or else to an address.
type target struct {
	topic   *Topic
	picture string // the name of the file
	anchor  string // with its #
	address string
}

// repository is where the files are that the manual names and does not have.
const repository = "https://github.com/berth-gpu/berth/blob/main/"

// follow returns where a link of a topic leads.
func (m *Manual) follow(from *Topic, link string) target {
	file, anchor := link, ""
	if at := strings.IndexByte(link, '#'); at >= 0 {
		file, anchor = link[:at], link[at:]
	}
	inside := path.Join(path.Dir(from.file), file)
	switch {
	case file == "":
		return target{topic: from, anchor: anchor}
	case strings.Contains(link, ":"):
		return target{address: link}
	case m.files[inside] != nil:
		return target{topic: m.files[inside], anchor: anchor}
	case strings.HasPrefix(inside, "pictures/"):
		return target{picture: path.Base(inside)}
	}
	return target{address: repository + path.Join("docs", inside) + anchor}
}

// markdown is the language of the pages. A cell of a table is aligned by an attribute of its
// own: no policy of a strict page allows one for styles.
func markdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))))
}

// parse reads a page. Comments are for those who write it.
func parse(source []byte) ast.Node {
	root := markdown().Parser().Parse(text.NewReader(source))
	for _, block := range slices.Collect(all[*ast.HTMLBlock](root)) {
		if block.HTMLBlockType == ast.HTMLBlockType2 {
			block.Parent().RemoveChild(block.Parent(), block)
		}
	}
	return root
}

// all yields a node and those below it that are of one kind, in their order.
func all[N ast.Node](n ast.Node) iter.Seq[N] {
	return func(yield func(N) bool) {
		_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
			if one, is := n.(N); is && entering && !yield(one) {
				return ast.WalkStop, nil
			}
			return ast.WalkContinue, nil
		})
	}
}

// plain returns the text of a node and of those below it.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch one := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(util.UnescapePunctuations(one.Value(source)))
				if one.SoftLineBreak() || one.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.AutoLink:
			if entering {
				b.Write(one.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// Anchors returns the names of the headings of a page, as GitHub gives them.
func Anchors(source []byte) (names []string) {
	for heading := range all[*ast.Heading](parse(source)) {
		names = append(names, anchorOf(heading, source, names))
	}
	return names
}

// anchorOf returns the name of a heading that comes after those with the names before.
func anchorOf(heading *ast.Heading, source []byte, before []string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, plain(heading, source))
	numbered := name
	for n := 1; slices.Contains(before, numbered); n++ {
		numbered = name + "-" + strconv.Itoa(n)
	}
	return numbered
}
