package main

import "fmt"

// verdict says how an attack ended. The zero value means that berth held.
type verdict struct {
	gained  []string
	skipped string // why the attack was not played
	note    string // what the attack measured
}

func (v *verdict) gain(format string, args ...any) {
	v.gained = append(v.gained, fmt.Sprintf(format, args...))
}

func (v *verdict) noting(format string, args ...any) { v.note = fmt.Sprintf(format, args...) }

// cut returns the beginning of a long text.
func cut(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}

// bytesOf formats a number of bytes for people.
func bytesOf(n int) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
