package manual

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Section is what stands between two headings of a page.
type Section struct {
	Topic   string `json:"topic"`
	Page    string `json:"page"`              // the title of the page
	Heading string `json:"heading,omitempty"` // empty above the first heading but that of the page
	Anchor  string `json:"anchor,omitempty"`  // of the heading
	Lead    string `json:"lead"`              // how it begins
}

// Index is the words of all pages, and where they are. The script of the site has it as
// JSON and looks in it as Find does.
type Index struct {
	Sections []Section        `json:"sections"`
	Words    map[string][]int `json:"words"` // the numbers of the sections that have a word, in their order

	sorted []string
	titles []title // of the sections
}

// title is the words above a section.
type title struct{ heading, page []string }

const lead = 180 // characters

// Words returns the index of the words in the manual.
func (m *Manual) Words() *Index {
	x := &Index{Words: map[string][]int{}}
	for _, t := range m.Topics {
		x.add(t)
	}
	x.sorted = slices.Sorted(maps.Keys(x.Words))
	return x
}

// add adds the sections of a page.
func (x *Index) add(t *Topic) {
	s := Section{Topic: t.Name, Page: t.Title}
	var body []string
	var anchors []string
	end := func() {
		text := strings.Join(body, " ")
		if s.Lead = words.Cut(text, lead); text == "" && s.Heading == "" {
			return
		}
		x.Sections = append(x.Sections, s)
		x.titles = append(x.titles, title{split(s.Heading), split(t.Name + " " + t.Title)})
		number := len(x.Sections) - 1
		for _, word := range split(t.Name + " " + t.Title + " " + s.Heading + " " + text) {
			if list := x.Words[word]; len(list) == 0 || list[len(list)-1] != number {
				x.Words[word] = append(list, number)
			}
		}
	}
	for n := parse(t.source).FirstChild(); n != nil; n = n.NextSibling() {
		heading, is := n.(*ast.Heading)
		if !is {
			body = append(body, plain(n, t.source))
			continue
		}
		anchors = append(anchors, anchorOf(heading, t.source, anchors))
		if heading.Level == 1 {
			continue
		}
		end()
		s, body = Section{Topic: t.Name, Page: t.Title, Heading: plain(heading, t.source), Anchor: anchors[len(anchors)-1]}, nil
	}
	end()
}

// split returns the words of a text in small letters. A name with underscores is one word.
func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
}

// MostAsked is the most words of a question that count, and MostFound the most sections of
// an answer.
const (
	MostAsked = 8
	MostFound = 30
)

// Find returns the sections that have every word of a question, or a word that begins with
// it: first those whose page or heading has it.
func (x *Index) Find(question string) (found []Section) {
	var score map[int]int // of sections that have all words so far
	asked := split(question)
	for i, word := range asked[:min(len(asked), MostAsked)] {
		has := map[int]int{}
		at, _ := slices.BinarySearch(x.sorted, word)
		for ; at < len(x.sorted) && strings.HasPrefix(x.sorted[at], word); at++ {
			for _, number := range x.Words[x.sorted[at]] {
				if before, all := score[number]; all || i == 0 {
					has[number] = max(has[number], before+x.worth(word, x.sorted[at], number))
				}
			}
		}
		score = has
	}
	numbers := slices.SortedFunc(maps.Keys(score), func(a, b int) int { return cmp.Or(score[b]-score[a], a-b) })
	for _, number := range numbers[:min(len(numbers), MostFound)] {
		found = append(found, x.Sections[number])
	}
	return found
}

// worth says how much a section answers a word of a question by a known word that begins
// with it: more if that is the whole word, and if the heading or the title of the page has
// it. The beginning of a page answers best what its title has.
func (x *Index) worth(word, known string, number int) int {
	worth := 1
	if word == known {
		worth += 2
	}
	if slices.Contains(x.titles[number].heading, known) {
		worth += 4
	}
	if slices.Contains(x.titles[number].page, known) {
		worth += 3
		if x.Sections[number].Heading == "" {
			worth += 3
		}
	}
	return worth
}

// Contents returns the headings of a page below its title, without those below them.
func (t *Topic) Contents() (found []Section) {
	const wanted = 2
	var anchors []string
	for heading := range all[*ast.Heading](parse(t.source)) {
		anchors = append(anchors, anchorOf(heading, t.source, anchors))
		if heading.Level == wanted {
			found = append(found, Section{Topic: t.Name, Page: t.Title, Heading: plain(heading, t.source), Anchor: anchors[len(anchors)-1]})
		}
	}
	return found
}
