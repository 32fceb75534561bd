package console

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Answer writes a value as JSON if the user asked for that, and otherwise lines.
func (c *Console) Answer(v any, lines ...string) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	return c.Print(lines...)
}

// PrintJSON writes a value as JSON that people can read as well.
func (c *Console) PrintJSON(v any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// PrintJSONLine writes a value as JSON on one line, for streams.
func (c *Console) PrintJSONLine(v any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// Print writes lines.
func (c *Console) Print(lines ...string) error {
	_, err := fmt.Fprintln(c.Out, strings.Join(lines, "\n"))
	return err
}
