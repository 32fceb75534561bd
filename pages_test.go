package berth_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The pages for readers name files and folders, and link to each other and to
// headings. Each of these must exist: a page that names what has moved sends its
// reader nowhere.
func TestPagesNameWhatExists(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]*)?\)`)
	name := regexp.MustCompile("`((?:api|client|cmd|deploy|docs|examples|gpu|internal|kubernetes|python|test|web)/[\\w./-]*\\w/?)`")
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			to := page
			if match[1] != "" {
				to = filepath.Join(filepath.Dir(page), match[1])
			}
			exists(t, page, to, match[2])
		}
		for _, match := range name.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(match[1], "NAME") { // stands for a name of the reader's
				exists(t, page, match[1], "")
			}
		}
	}
}

// Code, messages, settings and scripts name pages, too.
func TestWhatNamesAPageNamesOneThatExists(t *testing.T) {
	mention := regexp.MustCompile(`\bdocs/([\w/-]+\.md)(#[\w-]+)?`)
	kinds := []string{".go", ".md", ".py", ".ts", ".js", ".mjs", ".sh", ".yaml", ".yml", ".json", ".toml", ".txt", ".txtar", ".service", ".conf", ""}
	walk(t, ".", func(path string) {
		if !slices.Contains(kinds, filepath.Ext(path)) {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range mention.FindAllStringSubmatch(string(text), -1) {
			exists(t, path, "docs/"+match[1], match[2])
		}
	})
}

// A page that nothing leads to is not read.
func TestTheIndexHasEveryPage(t *testing.T) {
	index, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		if inside, ours := strings.CutPrefix(page, "docs/"); ours && inside != "README.md" && !strings.Contains(string(index), "]("+inside+")") {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}

// pages returns the pages that are written for readers.
func pages(t *testing.T) []string {
	list := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/batch/README.md", "examples/models/README.md", "examples/turns/README.md", "python/README.md"}
	walk(t, "docs", func(path string) {
		if filepath.Ext(path) == ".md" {
			list = append(list, path)
		}
	})
	return list
}

// walk calls visit for every file below a folder that belongs to the repository.
func walk(t *testing.T, folder string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name == "bin" || name == "dist" || path != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.Type().IsRegular():
			visit(filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exists complains if there is no such file, or no such heading in it.
func exists(t *testing.T, page, path, heading string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s names %s, which is not there", page, path)
		return
	}
	if heading == "" || filepath.Ext(path) != ".md" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(anchors(string(text)), heading[1:]) {
		t.Errorf("%s leads to %s%s, and there is no such heading", page, path, heading)
	}
}

// anchors returns the names that GitHub gives the headings of a page.
func anchors(text string) (names []string) {
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	seen := map[string]int{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, title)
		seen[name]++
		if n := seen[name]; n > 1 {
			name += "-" + strconv.Itoa(n-1)
		}
		names = append(names, name)
	}
	return names
}
