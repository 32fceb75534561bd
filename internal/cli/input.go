package cli

import (
	"io"
	"os"
)

// read returns at most so many bytes of a file; "-" is standard input.
func (a *app) read(path string, most int64) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(a.In, most))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// nameOf returns the name of a file for messages.
func nameOf(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}
