package process

import (
	"bytes"
	"os"
)

// Variable returns a variable of the environment that a process started with. It returns
// false if there is no such variable, or if this process may not inspect the other.
func (t Table) Variable(pid int, name string) (string, bool) {
	text, err := os.ReadFile(t.file(pid, "environ"))
	if err != nil {
		return "", false
	}
	prefix := []byte(name + "=")
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, prefix); ok {
			return string(value), true
		}
	}
	return "", false
}
