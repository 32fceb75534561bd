// Package help is the door to the manual: it serves the pages of docs/ under /help, with a
// search, and writes the same pages as a static site.
//
// The pages are the same for everybody, run no script and load nothing from elsewhere. A
// static site has nobody to ask, so its search is a script.
package help

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/webui"
	"github.com/berth-gpu/berth/internal/text/manual"
	"github.com/berth-gpu/berth/internal/text/synonyms"
	"github.com/berth-gpu/berth/internal/text/words"
)

//go:embed page.html
var layout string

//go:embed style.css
var style []byte

//go:embed search.js
var script []byte

// Help is the manual for browsers.
type Help struct {
	manual *manual.Manual
	folder fs.FS // of the manual, for its pictures
	layout *template.Template
	words  func() *manual.Index // made at the first question
	known  func() map[string]meant

	mu    sync.Mutex
	files map[string]*webui.File // what was asked for, by its path below /help; guarded by mu
}

// New returns the manual in a folder.
func New(folder fs.FS) (*Help, error) {
	m, err := manual.Read(folder)
	if err != nil {
		return nil, err
	}
	t, err := template.New("page").Parse(layout)
	h := &Help{manual: m, folder: folder, layout: t, words: sync.OnceValue(m.Words), files: map[string]*webui.File{}}
	h.known = sync.OnceValue(h.meanings)
	return h, err
}

// meant is what berth has for a word of a question. The script of the site reads it.
type meant struct {
	Answer   string   `json:"answer,omitempty"`
	Commands []string `json:"commands,omitempty"`
	Sections []int    `json:"sections"` // the beginnings of the pages that tell of it, as numbers in the index
}

// meanings returns what berth has for the words that it knows, and for its commands. The
// names of topics are found without.
func (h *Help) meanings() map[string]meant {
	begins := map[string]int{} // the first sections of topics
	for i, s := range h.words().Sections {
		if _, is := begins[s.Topic]; !is {
			begins[s.Topic] = i
		}
	}
	all := map[string]meant{}
	add := func(word string, m synonyms.Meaning) {
		it := meant{Answer: m.Answer, Sections: []int{}}
		var topics []string
		for _, name := range m.See {
			if h.manual.Topic(name) != nil {
				topics = append(topics, name)
			} else {
				it.Commands = append(it.Commands, name)
			}
		}
		for _, command := range it.Commands {
			topics = append(topics, synonyms.TopicOf(command))
		}
		for _, topic := range topics {
			if at, is := begins[topic]; is && !slices.Contains(it.Sections, at) {
				it.Sections = append(it.Sections, at)
			}
		}
		if h.manual.Topic(word) == nil {
			all[word] = it
		}
	}
	for word, m := range synonyms.All() {
		add(word, m)
	}
	for _, commands := range synonyms.Commands() {
		for _, command := range commands {
			add(command, synonyms.Meaning{See: []string{command}})
		}
	}
	return all
}

// meant returns what berth has for a question, if it is a word that is known.
func (h *Help) meant(question string) meant {
	asked := strings.ToLower(strings.Join(strings.Fields(question), " "))
	if m, is := h.known()[asked]; is {
		return m
	}
	return h.known()[strings.TrimSuffix(asked, "s")]
}

// find returns the sections that answer a question: first those of what it means, and then
// those that have its words.
func (m meant) find(x *manual.Index, question string) (found []manual.Section) {
	for _, number := range m.Sections {
		found = append(found, x.Sections[number])
	}
	for _, s := range x.Find(question) {
		if len(found) < manual.MostFound && !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	return found
}

// page is what the layout shows.
type page struct {
	Topic              *manual.Topic
	Way                manual.Way
	Search, Home, Icon string // addresses; Home and Icon may be empty
	Parts              []part
	Body               template.HTML
	Contents           []manual.Section // the headings of the page, if there are some

	Searching bool
	Question  string
	Answer    string   // what berth lacks of what was asked for; may be empty
	Commands  []string // of berth, that do what was asked for
	Found     []manual.Section
	Nothing   string // what to say if nothing was found
	Scripts   []string
}

type part struct {
	Name   string
	Topics []*manual.Topic
}

// To returns the address of a section.
func (p page) To(s manual.Section) string {
	at := p.Way.Before + s.Topic + p.Way.After
	if s.Anchor != "" {
		at += "#" + s.Anchor
	}
	return at
}

// render returns a page, with the text of its topic unless it is one of a search.
func (h *Help) render(p page) ([]byte, error) {
	for _, t := range h.manual.Topics {
		if len(p.Parts) == 0 || p.Parts[len(p.Parts)-1].Name != t.Part {
			p.Parts = append(p.Parts, part{Name: t.Part})
		}
		last := &p.Parts[len(p.Parts)-1]
		last.Topics = append(last.Topics, t)
	}
	if !p.Searching {
		body, err := h.manual.HTML(p.Topic, p.Way)
		if err != nil {
			return nil, err
		}
		p.Body = template.HTML(body) // the renderer of the manual escapes what is no markup
		const few = 3
		if p.Contents = p.Topic.Contents(); len(p.Contents) < few || p.Topic == h.manual.Index {
			p.Contents = nil
		}
	}
	var b bytes.Buffer
	err := h.layout.Execute(&b, p)
	return b.Bytes(), err
}

// Routes returns the paths of a manual that open reads when a page is asked for first: in
// most daemons none ever is, and the manual takes a megabyte.
func Routes(open func() (*Help, error)) []webui.Route {
	route := func(id, path, media, summary string, serve func(*Help, http.ResponseWriter, *http.Request), parameters ...*huma.Param) webui.Route {
		op := &huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"daemon"}, Parameters: parameters, Errors: []int{http.StatusNotFound}}
		return webui.Route{Operation: op, MediaType: media, Serve: func(w http.ResponseWriter, r *http.Request) {
			h, err := open()
			if err != nil {
				problems.Write(w, problems.New(http.StatusInternalServerError, "internal", "The manual cannot be read: %v.", err))
				return
			}
			serve(h, w, r)
		}}
	}
	text := &huma.Schema{Type: huma.TypeString}
	return []webui.Route{
		route("help", "/help", "text/html", "The manual: its index, or the sections that answer a question", (*Help).index,
			&huma.Param{Name: "q", In: "query", Description: "Words to look for.", Schema: text}),
		route("help-page", "/help/{page}", "text/html", "A page of the manual", func(h *Help, w http.ResponseWriter, r *http.Request) { h.serve(w, r, r.PathValue("page")) },
			&huma.Param{Name: "page", In: "path", Required: true, Description: "Name of a topic, for which berth help TOPIC shows the same page.", Schema: text}),
		route("help-picture", "/help/pictures/{file}", "image/png,image/svg+xml", "A picture of the manual", func(h *Help, w http.ResponseWriter, r *http.Request) { h.serve(w, r, "pictures/"+r.PathValue("file")) },
			&huma.Param{Name: "file", In: "path", Required: true, Description: "Name of the file.", Schema: text}),
	}
}

// policy lets a browser show the page and send its form here, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// mostLetters is the longest question that is looked for.
const mostLetters = 200

// index serves the index, or the answer to a question.
func (h *Help) index(w http.ResponseWriter, r *http.Request) {
	question := words.Cut(r.URL.Query().Get("q"), mostLetters)
	if question == "" {
		h.serve(w, r, "")
		return
	}
	p := at(h.manual.Index, false)
	m := h.meant(question)
	p.Searching, p.Question, p.Answer, p.Commands, p.Found = true, question, m.Answer, m.Commands, m.find(h.words(), question)
	p.Nothing = "No section of the manual has all of these words. Ask with fewer, or with the beginning of one."
	content, err := h.render(p)
	if err != nil {
		panic(err) // cannot happen: the layout is the same for all questions
	}
	webui.Harden(w.Header(), policy)
	webui.NewFile("found.html", content).Serve(w, r)
}

// at returns a page at /help, or below it. Its addresses have no host and no root, so that
// they work behind a proxy that gives the daemon a folder.
func at(t *manual.Topic, below bool) page {
	if below {
		return page{Topic: t, Way: manual.Way{Index: "../help"}, Search: "../help", Home: "../", Icon: "../favicon.svg"}
	}
	return page{Topic: t, Way: manual.Way{Index: "help", Before: "help/"}, Search: "help", Home: "./", Icon: "favicon.svg"}
}

// serve serves a file below /help. It makes the file when it is asked for first: there are
// as many as the manual has pages and pictures, so they stay.
func (h *Help) serve(w http.ResponseWriter, r *http.Request, path string) {
	webui.Harden(w.Header(), policy)
	h.mu.Lock()
	file := h.files[path]
	if file == nil {
		if file = h.file(path); file != nil {
			h.files[path] = file
		}
	}
	h.mu.Unlock()
	if file == nil {
		hint := "/help lists all pages."
		if near, ok := words.Nearest(path, h.manual.Names()); ok {
			hint = "Did you mean /help/" + near + "?"
		}
		problems.Write(w, problems.New(http.StatusNotFound, "unknown_path", "The manual has no %s. %s", r.URL.Path, hint))
		return
	}
	file.Serve(w, r)
}

// file returns what is at a path below /help, or nil.
func (h *Help) file(path string) *webui.File {
	topic := h.manual.Topic(path)
	if path == "" {
		topic = h.manual.Index
	}
	var content []byte
	var err error
	switch {
	case topic != nil:
		content, err = h.render(at(topic, path != ""))
		path += ".html"
	case path == "style.css":
		content = style
	case slices.Contains(h.pictures(), path):
		content, err = fs.ReadFile(h.folder, path)
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return webui.NewFile(path, content)
}

// pictures lists the pictures of the manual.
func (h *Help) pictures() []string {
	drawn, _ := fs.Glob(h.folder, "pictures/*.svg") // the patterns are valid
	found, _ := fs.Glob(h.folder, "pictures/*.png")
	return append(found, drawn...)
}

// Static returns the files of a static site, by their names.
func (h *Help) Static() (map[string][]byte, error) {
	site := page{Way: manual.Way{Index: "index.html", After: ".html"}, Search: "search.html"}
	index, err := json.Marshal(h.words())
	if err != nil {
		return nil, err
	}
	known, err := json.Marshal(h.known())
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"style.css": style, "search.js": script, "words.js": slices.Concat([]byte("const manual = "), index, []byte(";\nconst meanings = "), known, []byte(";\n"))}
	for _, name := range h.pictures() {
		if files[name], err = fs.ReadFile(h.folder, name); err != nil {
			return nil, err
		}
	}
	for _, t := range append(slices.Clone(h.manual.Topics), h.manual.Index) {
		p := site
		p.Topic = t
		if files[t.Name+".html"], err = h.render(p); err != nil {
			return nil, err
		}
	}
	site.Topic, site.Searching, site.Scripts = h.manual.Index, true, []string{"words.js", "search.js"}
	site.Nothing = "Write what you look for into the field above. The search here needs JavaScript; that of a daemon, under /help, does not."
	files["search.html"], err = h.render(site)
	return files, err
}
