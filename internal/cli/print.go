package cli

import (
	"encoding/json"
	"fmt"
	"strings"
)

// answer writes a value as JSON if the user asked for that, and lines otherwise.
func (a *app) answer(v any, lines ...string) error {
	if a.json {
		return a.printJSON(v)
	}
	return a.print(lines...)
}

// printJSON writes a value for programs that people may read too.
func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.Out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// printJSONLine writes a value on one line, for streams of them.
func (a *app) printJSONLine(v any) error {
	encoder := json.NewEncoder(a.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// print writes lines.
func (a *app) print(lines ...string) error {
	_, err := fmt.Fprintln(a.Out, strings.Join(lines, "\n"))
	return err
}
