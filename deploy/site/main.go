// Command site writes the manual as a static site.
//
// The pages are those that a daemon serves under /help. They need no server: a browser
// opens index.html.
//
//	go run ./deploy/site FOLDER
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/door/webui/help"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "site FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write the site:", err)
		os.Exit(1)
	}
}

// write writes the site into a folder.
func write(folder string) error {
	book, err := help.New(docs.Pages())
	if err != nil {
		return err
	}
	files, err := book.Static()
	for name, content := range files {
		path := filepath.Join(folder, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644))
	}
	return err
}
