package console

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/internal/text/term"
)

// Answer writes a value as JSON if the user asked for that, and otherwise lines.
func (c *Console) Answer(v any, lines ...string) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	return c.Print(lines...)
}

// Verdict does the same as Answer for a result that is a failure unless it is good.
func (c *Console) Verdict(good bool, v any, lines ...string) error {
	if err := c.Answer(v, lines...); err != nil || good {
		return err
	}
	return ErrReported
}

// AnswerOne does the same as Answer for one of many values, which JSON has on a line
// each.
func AnswerOne[T any](c *Console, v T, say func(T, term.Screen) string) error {
	if c.JSON {
		return c.PrintJSONLine(v)
	}
	return c.Print(say(v, c.Uncut()))
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
