package berth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages for readers name files and folders, and link to each other. Each of
// these must exist: a page that names what has moved sends its reader nowhere.
func TestPagesNameWhatExists(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	name := regexp.MustCompile("`((?:api|audit|bench|chaos|client|cmd|deploy|docs|examples|fuzz|gpu|internal|kubernetes|python)/[\\w./-]*\\w/?)`")
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/batch/README.md", "examples/turns/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			exists(t, page, filepath.Join(filepath.Dir(page), match[1]))
		}
		for _, match := range name.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(match[1], "NAME") { // stands for a name of the reader's
				exists(t, page, match[1])
			}
		}
	}
}

func exists(t *testing.T, page, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s names %s, which is not there", page, path)
	}
}
