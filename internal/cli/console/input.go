package console

import (
	"io"
	"os"
)

// Read returns up to most bytes of a file. The path "-" means standard input.
func (c *Console) Read(path string, most int64) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(c.In, most))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// NameOf returns the name of a file for messages.
func NameOf(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}
