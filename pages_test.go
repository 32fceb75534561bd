package berth_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/topics"
	"github.com/berth-gpu/berth/internal/text/manual"
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

// Messages, settings and pages send readers to topics of the manual, or to commands.
func TestWhatNamesATopicNamesOneThatExists(t *testing.T) {
	m, err := manual.Read(docs.Pages())
	if err != nil {
		t.Fatal(err)
	}
	root := cli.New(cli.Env{})
	mention := regexp.MustCompile(`\bberth help ([a-z][a-z-]*[a-z])\b`)
	found := 0
	walk(t, ".", func(path string) {
		if !slices.Contains([]string{".go", ".md", ".py", ".ts", ".tsx", ".yaml", ".sh"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") || path == "CHANGELOG.md" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range mention.FindAllStringSubmatch(string(text), -1) {
			found++
			if cmd, _, err := root.Find(match[1:2]); (err != nil || cmd == root) && m.Topic(match[1]) == nil && match[1] != topics.List {
				t.Errorf("%s says berth help %s, and there is no such topic and no such command", path, match[1])
			}
		}
	})
	if found < 30 {
		t.Errorf("only %d mentions are compared", found)
	}
}

// The program is installed without this folder: what it prints names topics, not files.
func TestTheProgramNamesNoPageByItsFile(t *testing.T) {
	for dir, files := range parsePackages(t) {
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") || forTests(dir) || strings.HasPrefix(dir, "deploy") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING && strings.Contains(text.Value, ".md") && strings.Contains(text.Value, "docs/") && !strings.Contains(text.Value, "enter it in verbs") {
					t.Errorf("%s: %s", name, text.Value)
				}
				return true
			})
		}
	}
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
	if !slices.Contains(manual.Anchors(text), heading[1:]) {
		t.Errorf("%s leads to %s%s, and there is no such heading", page, path, heading)
	}
}
