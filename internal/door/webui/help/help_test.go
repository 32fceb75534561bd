package help

import (
	"flag"
	"html"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/berth-gpu/berth/docs"
)

// book is the manual of berth, which the tests share: it takes long to make its pages.
var book = sync.OnceValues(func() (*Help, error) { return New(docs.Pages()) })

// made is the static site.
var made = sync.OnceValues(func() (map[string][]byte, error) {
	h, err := book()
	if err != nil {
		return nil, err
	}
	return h.Static()
})

func whole(t *testing.T) *Help {
	t.Helper()
	h, err := book()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask asks as the REST door does.
func ask(h *Help, path string, headers ...string) *http.Response {
	mux := http.NewServeMux()
	for _, route := range Routes(func() (*Help, error) { return h, nil }) {
		mux.HandleFunc("GET "+route.Operation.Path, route.Serve)
	}
	r := httptest.NewRequest("GET", "http://127.0.0.1:8000"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Result()
}

func body(r *http.Response) string {
	text, _ := io.ReadAll(r.Body) // memory can be read
	return string(text)
}

var (
	leads = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	named = regexp.MustCompile(`id="([^"]*)"`)
)

// crawl follows every link from a first page on, and complains about those that lead
// nowhere. get returns the text at an address, and whether there is one. The addresses of
// others are not asked; the pages of the daemon itself are in known.
func crawl(t *testing.T, first string, known []string, get func(at string) (text string, ok bool)) (seen map[string]string) {
	t.Helper()
	seen = map[string]string{}
	missing := map[string]bool{}
	type link struct{ from, to, anchor string }
	var anchors []link
	for queue := []link{{"", first, ""}}; len(queue) > 0; queue = queue[1:] {
		one := queue[0]
		if _, done := seen[one.to]; !done && !missing[one.to] {
			text, ok := get(one.to)
			if missing[one.to] = !ok; ok {
				seen[one.to] = text
			}
			if ok && strings.HasPrefix(text, "<!doctype html>") {
				base := &url.URL{Path: one.to}
				for _, match := range leads.FindAllStringSubmatch(text, -1) {
					to, err := base.Parse(html.UnescapeString(match[1]))
					switch {
					case err != nil:
						t.Errorf("%s leads to %q: %v", one.to, match[1], err)
					case to.Host != "":
						if to.Scheme != "https" && to.Scheme != "http" || strings.Contains(match[0], "src=") {
							t.Errorf("%s has %s", one.to, match[0])
						}
					case slices.Contains(known, to.Path):
					default:
						queue = append(queue, link{one.to, to.Path, ""})
						if to.Fragment != "" {
							anchors = append(anchors, link{one.to, to.Path, to.Fragment})
						}
					}
				}
			}
		}
		if missing[one.to] {
			t.Errorf("%s leads to %s, and nothing is there", one.from, one.to)
		}
	}
	for _, one := range anchors {
		if !slices.ContainsFunc(named.FindAllStringSubmatch(seen[one.to], -1), func(m []string) bool { return m[1] == one.anchor }) {
			t.Errorf("%s leads to %s#%s, and there is no such heading", one.from, one.to, one.anchor)
		}
	}
	return seen
}

func TestNoLinkOfTheDaemonIsDead(t *testing.T) {
	h := whole(t)
	seen := crawl(t, "/help", []string{"/", "/favicon.svg"}, func(at string) (string, bool) {
		answer := ask(h, at)
		return body(answer), answer.StatusCode == http.StatusOK
	})
	for _, topic := range h.manual.Topics {
		text := seen["/help/"+topic.Name]
		if text == "" || strings.Contains(text, "raw HTML omitted") || strings.Contains(text, "<script") || strings.Contains(text, "style=") {
			t.Errorf("%s is not reached, or has what a browser would not show", topic.Name)
		}
	}
}

var folder = flag.String("help.site", "", "crawl the site in this `FOLDER`, instead of one that is made here")

func TestNoLinkOfTheSiteIsDead(t *testing.T) {
	files, err := site()
	if err != nil {
		t.Fatal(err)
	}
	seen := crawl(t, "/index.html", nil, func(at string) (string, bool) {
		text, ok := files[strings.TrimPrefix(at, "/")]
		return string(text), ok
	})
	pictures := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, reached := seen["/"+name]
		switch path.Ext(name) {
		case ".png": // a few are for the README of the repository
			if reached {
				pictures++
			}
		default:
			if !reached {
				t.Errorf("nothing leads to %s", name)
			}
		}
	}
	if pictures < 10 {
		t.Errorf("only %d pictures are shown", pictures)
	}
}

// site returns the files of the site.
func site() (map[string][]byte, error) {
	if *folder == "" {
		return made()
	}
	files := map[string][]byte{}
	return files, fs.WalkDir(os.DirFS(*folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path], err = fs.ReadFile(os.DirFS(*folder), path)
		}
		return err
	})
}

// The search of the site looks in the same index, and needs a script; that of the daemon
// does not.
func TestSearch(t *testing.T) {
	h := whole(t)
	text := body(ask(h, "/help?q=heat+%3Cscript%3E"))
	if strings.Contains(text, "<script>") || !strings.Contains(text, `value="heat &lt;script&gt;"`) {
		t.Error("a question is not escaped")
	}
	text = body(ask(h, "/help?q=throttling+pace"))
	if !strings.Contains(text, `<li><a href="help/heat#`) || !strings.Contains(text, "heat › ") {
		t.Errorf("%s", text)
	}
	for _, nothing := range []string{"/help?q=xyzzy", "/help?q=%00", "/help?q=" + strings.Repeat("z", 5000)} {
		if text := body(ask(h, nothing)); !strings.Contains(text, "No section of the manual has all of these words") {
			t.Errorf("%s: %.300s", nothing, text)
		}
	}
	for question, want := range map[string][]string{
		"Prometheus": {`>monitoring</a>`, `help/monitoring"`},
		"tmux":       {"berth has no terminal of a job", "<code>berth help logs</code>, <code>berth help job</code>", `help/running-jobs"`},
		"sbatch":     {"<code>berth help submit</code>", `help/shared-machine"`},
		"sinfos":     {"<code>berth help status</code>"},
		"stop":       {"<code>berth help stop</code></p>", `help/running-services"`},
	} {
		text := body(ask(h, "/help?q="+url.QueryEscape(question)))
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("%s does not say %s:\n%.1500s", question, one, text[strings.Index(text, "<main"):])
			}
		}
	}
	files, err := made()
	if err != nil {
		t.Fatal(err)
	}
	if text := string(files["search.html"]); !strings.Contains(text, `<script src="words.js"></script>`) || !strings.Contains(text, `<script src="search.js"></script>`) {
		t.Error("search.html has no scripts")
	}
	if text := string(files["words.js"]); !strings.HasPrefix(text, `const manual = {"sections":[{"topic":"`) || !strings.Contains(text, "\nconst meanings = {") || len(text) > 640<<10 {
		t.Errorf("words.js has %d bytes: %.80s", len(text), text)
	}
}

func TestHeadersAndPathsThatLeadElsewhere(t *testing.T) {
	h := whole(t)
	for _, path := range []string{"/help", "/help?q=heat", "/help/heat", "/help/style.css", "/help/pictures/top.png", "/help/pictures/growth-leases.svg", "/help/nothing"} {
		header := ask(h, path).Header
		if csp := header.Get("Content-Security-Policy"); csp != policy || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, header)
		}
	}
	if got := ask(h, "/help/heat", "Accept-Encoding", "gzip"); got.Header.Get("Content-Encoding") != "gzip" || got.Header.Get("Content-Type") != "text/html; charset=utf-8" || got.Header.Get("ETag") == "" {
		t.Errorf("%v", got.Header)
	}
	if got := ask(h, "/help/pictures/growth-leases.svg"); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("a drawn picture: %d, %v", got.StatusCode, got.Header)
	}
	for _, path := range []string{"/help/README.md", "/help/guide%2Fheat.md", "/help/pictures/ansi.py", "/help/pictures/..%2FREADME.md", "/help/%2e%2e%2fpages.go", "/help/index.html", "/help/search.js", "/help/pictures/nothing.png"} {
		if got := ask(h, path); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	if text := body(ask(h, "/help/haet")); !strings.Contains(text, "Did you mean /help/heat?") {
		t.Errorf("%s", text)
	}
}

// The manual looks like the page: the colours have the same names and values.
func TestColoursAreThoseOfThePage(t *testing.T) {
	tokens, err := os.ReadFile("../../../../web/src/style/tokens.css")
	if err != nil {
		t.Fatal(err)
	}
	colour := regexp.MustCompile(`--[a-z-]+: [^;]+;`)
	light, dark, _ := strings.Cut(string(tokens), "@media")
	ours, oursDark, _ := strings.Cut(string(style), "@media")
	oursDark, _, _ = strings.Cut(oursDark, "\n*")
	for _, scheme := range [][2]string{{ours, light}, {oursDark, dark}} {
		found := colour.FindAllString(scheme[0], -1)
		if len(found) < 9 {
			t.Errorf("%d colours", len(found))
		}
		for _, one := range found {
			if !strings.Contains(scheme[1], one) {
				t.Errorf("the page has no %s", one)
			}
		}
	}
}

func TestAManualThatIsNotThere(t *testing.T) {
	if _, err := New(fstest.MapFS{}); err == nil {
		t.Error("no pages are a manual")
	}
}
