// Package docs is the manual of berth as a program carries it: the pages of this folder,
// and their pictures.
//
// Package manual reads them; nothing else needs to.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed *.md */*.md guide/recipes/*.md pictures/*.png pictures/*.svg
var pages embed.FS

// Pages returns the folder.
func Pages() fs.FS { return pages }
